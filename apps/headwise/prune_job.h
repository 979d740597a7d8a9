// The work of headwise prune, for all commands that prune.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "headwise/observe/evaluation.h"
#include "headwise/plan/gated_plan.h"
#include "headwise/prune/prune.h"
#include "headwise/prune/prune_report.h"
#include "headwise/train/fine_tune.h"
#include "inputs.h"

namespace headwise::program {

struct PruneJob {
  Plan plan{};  // the heads that go
  std::optional<GateOptions>
      gates{};  // instead: heads that gates close, learned on options.recover
  PruneOptions options{};
  std::optional<EvaluationSet> quality{};  // what it is measured on, before and after
};

struct PruneOutcome {
  PruneReport report{};
  std::map<std::string, float> gates{};  // that were learned
  std::string plan{};                    // the file that has their plan
};

/// Writes the pruned model to a folder, and compares it with what it was. The plan of learned gates
/// goes into a file beside. --quiet shows no progress.
PruneOutcome prune_and_measure(PruneJob work, const Session& session, const std::string& out,
                               bool quiet);

std::string to_json(const PruneOutcome& outcome);
std::string to_text(const PruneReport& report);
std::string to_text(const PruneOutcome& outcome);

}  // namespace headwise::program
