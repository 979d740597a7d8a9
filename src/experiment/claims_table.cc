// docs/claims.md: every claim beside its verdict.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <string>

#include "experiment/experiment_kind.h"
#include "headwise/experiment/experiment.h"
#include "io/file.h"

namespace headwise {
namespace {

std::string figure_of(const ClaimVerdict& verdict) {
  return verdict.figure ? fmt::format("{:.3g}, {}", *verdict.figure, verdict.figure_name) : "";
}

std::string interval_of(const ClaimVerdict& verdict) {
  if (!verdict.interval) return "";
  return fmt::format("{:.3g} to {:.3g}", verdict.interval->low, verdict.interval->high);
}

std::string outcome_of(const ClaimVerdict& verdict) {
  return fmt::format("*{}{}{}*", to_string(verdict.outcome), verdict.depends_on.empty() ? "" : ": ",
                     verdict.depends_on);
}

/// With a --model for each that the settings name, by the name of its folder.
std::string command_of(const ExperimentInfo& info) {
  const auto kinds = experiment_kinds();
  const auto kind = std::ranges::find(kinds, info.name, &ExperimentKind::name);
  if (kind == kinds.end()) return "";
  std::string command = fmt::format("headwise experiment {} -o OUT", info.name);
  std::set<std::string> models;
  for (const ExperimentTrial& trial : kind->trials(settings_of(info, false))) {
    if (!trial.model.empty() && models.insert(trial.model).second) {
      command += " --model " + trial.model;
    }
  }
  return fmt::format("`{}`", command);
}

}  // namespace

std::string claims_table(const std::filesystem::path& folder) {
  std::string table =
      "# Claims about heads, put to the test\n\n"
      "Each row is an experiment that can fail. `claim.md` in its folder was committed before the "
      "result: what is claimed by whom, what varies, the\nsmallest effect that matters, and the "
      "rule that turns trials into the verdict. [Experiments](experiments.md) describes the "
      "files, and where the models are from: a --model is the folder of this name.\n\n"
      "This page is made by `headwise experiment --table experiments`; a test compares it with the "
      "committed trials.\n\n"
      "| claim | source | verdict | figure | 95 % interval | command "
      "|\n|---|---|---|---|---|---|\n";
  std::string sections;
  for (const ExperimentInfo& info : experiments()) {
    const std::filesystem::path result = folder / info.name / "result";
    std::optional<ClaimVerdict> verdict;
    if (is_there(result / "trials.jsonl")) verdict = judge_experiment(result);
    const bool designed_only = !info.not_decided.empty();
    table += fmt::format("| [{}](../experiments/{}/claim.md) | {} | {} | {} | {} | {} |\n",
                         info.claim, info.name, info.source,
                         verdict         ? outcome_of(*verdict)
                         : designed_only ? "*not decided here*"
                                         : "not run yet",
                         verdict ? figure_of(*verdict) : "", verdict ? interval_of(*verdict) : "",
                         command_of(info));
    if (verdict) {
      sections +=
          fmt::format("\n## {}\n\n{}: {}\n", info.claim, outcome_of(*verdict), verdict->why);
      if (!verdict->plot.empty()) {
        sections +=
            fmt::format("\n![{}](../experiments/{}/result/plot.svg)\n", info.claim, info.name);
      }
    } else if (designed_only) {
      sections += fmt::format("\n## {}\n\n*not decided here*: {}\n", info.claim, info.not_decided);
    }
  }
  return table + sections;
}

}  // namespace headwise
