// headwise judge: what the evidence about every head means.
#include "headwise/judge/judge.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "command.h"
#include "headwise/io/output_file.h"
#include "judge_screen.h"

namespace headwise::program {
namespace {

struct JudgeArgs {
  std::string evidence{}, explain{}, color = "auto";
  std::vector<std::string> thresholds{};
  std::optional<double> tolerance{};
  bool roles = false;
};

/// "window=0.5"
std::pair<std::string, double> threshold_of(const std::string& text) {
  const size_t equals = text.find('=');
  double value = NAN;
  if (equals != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [after, error] = std::from_chars(text.data() + equals + 1, end, value);
    if (error != std::errc() || after != end) value = NAN;
  }
  if (!std::isfinite(value)) {
    usage_error(fmt::format("--threshold {}: give a name and a number, as in window=0.5", text));
  }
  return {text.substr(0, equals), value};
}

void judge_evidence(const JudgeArgs& args, const CommonOptions& common) {
  CommonOptions screen = common;
  screen.out.clear();
  const Color color = choose_color(args.color);
  if (args.roles) {
    if (!args.evidence.empty()) usage_error("--roles lists what there is, and takes no evidence");
    if (common.json) usage_error("--roles has no JSON");
    if (!args.explain.empty() || !args.thresholds.empty() || args.tolerance) {
      usage_error("--roles lists what there is, and judges nothing");
    }
    return write_output(common, role_table(common.out.empty() ? color : Color::none));
  }
  if (common.json && !args.explain.empty())
    usage_error("--explain: --json has the words of every head");
  if (args.evidence.empty())
    usage_error("EVIDENCE is missing: a file that headwise observe -o wrote");
  JudgeOptions options{.tolerance = args.tolerance};
  for (const std::string& text : args.thresholds) {
    const auto [name, value] = threshold_of(text);
    options.thresholds[name] = value;  // the last of a name counts
  }
  const Verdict verdict = judge(read_evidence(args.evidence), options);
  std::string words;
  if (!args.explain.empty()) {
    for (const std::string& head : heads_of_list(verdict, args.explain)) {
      words += explain(verdict, head) + "\n";
    }
    for (const std::string& role : roles_without_heads(verdict, args.explain)) {
      words += no_head_has(verdict, role) + "\n";
    }
  }
  const std::string json = to_json(verdict);
  if (!common.out.empty()) write_file_whole(common.out, json);
  if (common.json) {
    write_output(screen, json);
  } else {
    write_output(screen, words.empty() ? to_text(verdict, color, terminal_width()) : words);
  }
  if (!common.out.empty()) log_info(common, fmt::format("{} has the whole verdict", common.out));
}

}  // namespace

void add_judge(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<JudgeArgs>();
  CLI::App& command = add_command(
      app, "judge", "What the evidence means: roles, redundant heads, which heads matter",
      "A grid shows every head by a letter for its role. -o FILE gets the verdict as JSON: see\n"
      "docs/judge.md and docs/formats.md. Discourse and task-specific roles are not claimed.\n\n"
      "Example:\n"
      "  headwise judge evidence.json -o verdict.json\n"
      "  headwise judge evidence.json --explain L3.H1,L4,role:positional",
      common, [options, &common] { judge_evidence(*options, common); });
  command.add_option("EVIDENCE", options->evidence, "A file that headwise observe -o wrote")
      ->type_name("");
  command
      .add_option("--explain", options->explain,
                  "A sentence for each of these heads: L3.H1, L4, role:relation, all")
      ->type_name("LIST");
  add_list(command, "--threshold", options->thresholds,
           "Another threshold, as in window=0.5; may be given several times")
      ->type_name("NAME=VALUE");
  command
      .add_option("--tolerance", options->tolerance,
                  "How much the loss may rise without a head: a share of it, under fidelity an "
                  "amount; default: 0.005, or what observe --adaptive was given")
      ->check(finite(0))
      ->type_name("T");
  command.add_flag("--roles", options->roles, "List all roles and thresholds");
  command.add_option("--color", options->color, "auto, always or never; default: auto")
      ->check(CLI::IsMember({"auto", "always", "never"}).description(""))
      ->type_name("C");
}

}  // namespace headwise::program
