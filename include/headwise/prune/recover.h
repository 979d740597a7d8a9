// Recovers a pruned model by fine-tuning.
#pragma once

#include <filesystem>

#include "headwise/model/model.h"
#include "headwise/observe/evaluation.h"
#include "headwise/train/fine_tune.h"

namespace headwise {

/// The model with trained weights, in the types that they had; tensors that training does not know
/// stay as they are. What is learned is the loss of the set; for fidelity, which has no labels, the
/// hidden states of `teacher`, the model before heads were removed. `out` is as in PruneOptions.
Model recover(const Model& model, const Model& teacher, const EvaluationSet& set,
              const FineTuneOptions& options, const std::filesystem::path& out = {});

}  // namespace headwise
