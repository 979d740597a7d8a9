// How many passes the stages of a study cost, and how a budget is divided among them.
#pragma once

#include <string>
#include <vector>

#include "headwise/study/study.h"

namespace headwise {

/// A stage and the passes that it may cost.
struct StageBudget {
  std::string name{};
  double passes = 0;
};

/// What held-out examples cost each time, in passes.
struct HeldOutPasses {
  double all = 0;          // with all masks: of the plan and of random heads
  double first_masks = 0;  // of curves
};

/// The stages of a study in their order. Counted from shapes and numbers of tokens, never from
/// time, so that a study gives the same bits everywhere. Ablations get what the others leave.
/// `passes` none: a thorough study.
std::vector<StageBudget> stage_budgets(const Model& model, const StudyInput& input, bool probes,
                                       std::optional<double> passes, const HeldOutPasses& held_out);

/// Passes of a stage by its name; 0 if there is none.
double passes_of(const std::vector<StageBudget>& stages, std::string_view name);

/// Examples that chose heads: those of the loss, and further ones that undecided heads got.
int64_t choosing_examples(const Evidence& evidence);

/// From the last interval of each undecided head: how many examples would decide it. `share`: a
/// pass over the examples of the evidence, in passes.
Undecided undecided_heads(const Verdict& verdict, const Evidence& evidence, const Model& model,
                          double share);

}  // namespace headwise
