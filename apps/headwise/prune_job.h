// The work of headwise prune, for all commands that prune.
#pragma once

#include <cstdint>
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
  std::vector<std::string> drop{};     // "L3.H1", "L4"
  std::optional<GateOptions> gates{};  // instead: heads that gates close, learned on `recovery`
  PruneOptions options{};
  std::optional<EvaluationSet> quality{};   // what it is measured on, before and after
  std::optional<EvaluationSet> recovery{};  // what it is trained on after heads went
  FineTuneOptions training{};
  int64_t rounds = 1;    // of cutting some, and training
  int64_t tokens = 128;  // of the texts whose speed is measured

  /// Gates may be learned on `recovery` with nothing trained after the cut.
  bool recovers() const { return recovery.has_value() && training.epochs > 0; }
};

struct PruneOutcome {
  PruneReport report{};
  std::optional<GatedPlan> gated{};
  std::string plan{};  // the file that has its plan
};

/// Writes the pruned model to a folder, and compares it with what it was. The plan of learned gates
/// goes into a file beside. --quiet shows no progress.
PruneOutcome prune_and_measure(const PruneJob& work, const Session& session, const std::string& out,
                               bool quiet);

std::string to_json(const PruneOutcome& outcome);
std::string to_text(const PruneReport& report);
std::string to_text(const PruneOutcome& outcome);

}  // namespace headwise::program
