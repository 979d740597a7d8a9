// Declares the options that several commands have, with the names that the library knows.
#include "options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "headwise/observe/evaluation.h"
#include "headwise/plan/make_plan.h"
#include "headwise/prune/prune.h"

namespace headwise::program {
namespace {

constexpr int64_t kMost = int64_t{1} << 40;

template <class Count>
CLI::Option* sample_option(CLI::App& command, Count& count, std::string_view what) {
  return command.add_option("--sample", count, fmt::format("At most so many {}", what))
      ->check(whole_number(1))
      ->type_name("N");
}

template <class Count>
CLI::Option* at_least_option(CLI::App& command, Count& heads) {
  return command.add_option("--at-least", heads, "So many heads stay in every layer; default: 1")
      ->check(whole_number())
      ->type_name("K");
}

}  // namespace

std::string any_of(const std::vector<std::string_view>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

CLI::Validator whole_number(int64_t least) { return CLI::Range(least, kMost).description(""); }

CLI::Validator is_one_of(const std::vector<std::string_view>& names) {
  return CLI::IsMember(std::vector<std::string>(names.begin(), names.end())).description("");
}

CLI::Option* add_loss(CLI::App& command, std::string& loss, std::string_view what) {
  return command.add_option("--loss", loss, fmt::format("{}{}", any_of(loss_task_names()), what))
      ->check(is_one_of(loss_task_names()))
      ->type_name("TASK");
}

CLI::Option* add_data(CLI::App& command, std::vector<std::string>& files, std::string_view what,
                      std::string_view otherwise) {
  return add_list(command, "--data", files,
                  fmt::format("{}, as in docs/data.md; translate takes two{}", what, otherwise))
      ->type_name("FILE");
}

CLI::Option* add_sample(CLI::App& command, int64_t& count, std::string_view what) {
  return sample_option(command, count, what);
}
CLI::Option* add_sample(CLI::App& command, std::optional<int64_t>& count, std::string_view what) {
  return sample_option(command, count, what);
}

CLI::Option* add_treebank(CLI::App& command, std::string& file) {
  return command.add_option("--treebank", file, "Universal Dependencies: a CoNLL-U file")
      ->type_name("FILE");
}

CLI::Option* add_coreference(CLI::App& command, std::string& file) {
  return command
      .add_option("--coref", file,
                  "Pronouns and names: GAP's tab-separated file, or CoNLL-U with Entity=")
      ->type_name("FILE");
}

CLI::Option* add_no_probes(CLI::App& command, bool& leaves_out) {
  return command.add_flag("--no-probes", leaves_out, "Leave the built-in probes out");
}

CLI::Option* add_lexicon(CLI::App& command, std::string& file) {
  return command
      .add_option("--probe-lexicon", file,
                  "Words of another language for the probes: a JSON file, see docs/probes.md")
      ->type_name("FILE");
}

CLI::Option* add_truncate(CLI::App& command, bool& truncates) {
  return command.add_flag("--truncate", truncates, "Cut texts that are too long for the model");
}

CLI::Option* add_allow_nonfinite(CLI::App& command, bool& allows) {
  return command.add_flag("--allow-nonfinite", allows,
                          "Load a model with NaN or infinity among its weights");
}

CLI::Option* add_model(CLI::App& command, const char* name, std::string& model) {
  const bool positional = name[0] != '-';
  return command.add_option(name, model, "A Hugging Face folder, or an id in the local cache")
      ->required(positional)
      ->type_name(positional ? "" : "MODEL");
}

CLI::Option* add_keep(CLI::App& command, std::string& share, std::string_view what) {
  return command
      .add_option("--keep", share,
                  fmt::format("At most this share of the heads stays: 0.6 or 60%{}", what))
      ->check(is_share())
      ->type_name("SHARE");
}

CLI::Option* add_heads_left(CLI::App& command, std::optional<int64_t>& heads) {
  return command.add_option("--heads", heads, "At most so many heads stay")
      ->check(whole_number())
      ->type_name("N");
}

CLI::Option* add_at_least(CLI::App& command, int64_t& heads) {
  return at_least_option(command, heads);
}
CLI::Option* add_at_least(CLI::App& command, std::optional<int64_t>& heads) {
  return at_least_option(command, heads);
}

CLI::Option* add_order(CLI::App& command, std::string& order) {
  return command
      .add_option("--order", order,
                  fmt::format("Which heads go first: {}, which measures again after each step; "
                              "default: ablation where it was measured, else gradient",
                              any_of(head_order_names())))
      ->check(is_one_of(head_order_names()))
      ->type_name("ORDER");
}

CLI::Option* add_form(CLI::App& command, std::string& form) {
  return command
      .add_option(
          "--form", form,
          fmt::format("{}; default: {}", any_of(prune_form_names()), to_string(PruneForm::compact)))
      ->check(is_one_of(prune_form_names()))
      ->type_name("FORM");
}

}  // namespace headwise::program
