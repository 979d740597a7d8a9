// Chooses heads by learned gates: training drives the gates of removable heads to 0.
//
// docs/prune.md says how, and why so.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "headwise/model/model.h"
#include "headwise/observe/evaluation.h"
#include "headwise/plan/plan.h"
#include "headwise/train/fine_tune.h"

namespace headwise {

struct GateOptions {
  // At most so many heads stay: exactly one is given.
  std::optional<double> keep{};  // this share
  std::optional<int64_t> heads{};

  int64_t at_least = 1;        // heads that stay in every attention
  bool uniform = false;        // the same number stays in every attention of a kind
  bool train_weights = true;   // along with the gates; or the gates alone
  FineTuneOptions training{};  // its rate is that of the weights
};

struct GatedPlan {
  Plan plan{};                           // its order is "gates"
  std::map<std::string, float> gates{};  // of every head of the model, as they were learned
  /// The model as it was trained with them, the gates multiplied into its output projections. The
  /// heads that go are still in it.
  Model model;
};

/// What is learned is the loss of the set; for fidelity, which has no labels, the hidden states of
/// the model itself. Throws Error if so few heads cannot be left within the constraints.
GatedPlan learn_plan(const Model& model, const EvaluationSet& set, const GateOptions& options);

}  // namespace headwise
