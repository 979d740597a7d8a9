// headwise judge: what the evidence about every head means.
#include "headwise/judge/judge.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "command.h"
#include "options.h"
#include "screens.h"

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
  usage_error_if(!std::isfinite(value),
                 fmt::format("--threshold {}: give a name and a number, as in window=0.5", text));
  return {text.substr(0, equals), value};
}

void judge_evidence(const JudgeArgs& args, const CommonOptions& common) {
  const Color color = choose_color(args.color);
  if (args.roles) {
    usage_error_if(!args.evidence.empty(), "--roles lists what there is, and takes no evidence");
    usage_error_if(common.json, "--roles has no JSON");
    usage_error_if(!args.explain.empty() || !args.thresholds.empty() || args.tolerance,
                   "--roles lists what there is, and judges nothing");
    return write_output(common, role_table(common.out.empty() ? color : Color::none));
  }
  usage_error_if(common.json && !args.explain.empty(),
                 "--explain: --json has the words of every head");
  usage_error_if(args.evidence.empty(),
                 "EVIDENCE is missing: a file that headwise observe -o wrote");
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
  if (words.empty()) words = to_text(verdict, color, terminal_width());
  write_stage(common, to_json(verdict), words, "the whole verdict");
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
  Options declare(command);
  declare.argument("EVIDENCE", options->evidence, "A file that headwise observe -o wrote");
  declare.add("--explain", options->explain, "LIST",
              "A sentence for each of these heads: L3.H1, L4, role:relation, all");
  declare.list("--threshold", options->thresholds, "NAME=VALUE",
               "Another threshold, as in window=0.5; may be given several times");
  declare.add("--tolerance", options->tolerance, "T",
              "How much the loss may rise without a head: a share of it, under fidelity an "
              "amount; default: 0.005, or what observe --adaptive was given",
              finite(0));
  declare.flag("--roles", options->roles, "List all roles and thresholds");
  declare.color(options->color);
}

}  // namespace headwise::program
