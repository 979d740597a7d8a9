// A new model: from the "model" object of the settings to the config.json of a known architecture.
#pragma once

#include <string>
#include <vector>

#include "headwise/io/json.h"
#include "headwise/text/tokenizer.h"
#include "headwise/train/settings.h"

namespace headwise {

/// The task of the model that is trained.
Task task_of(TrainTask task);

/// Throws Error, naming the field, for sizes that do not go together.
ScratchSettings read_scratch(const JsonObject& model, TrainTask task);

/// What the data decide about a new model.
struct ScratchContext {
  TrainTask task = TrainTask::causal_lm;
  int64_t vocabulary = 0;
  Tokenizer::SpecialTokens special{};
  std::vector<std::string> labels{};  // of classification
};

/// The text of config.json, which transformers loads. Heads for which the architecture has no field
/// stand in "headwise" (see model/config_heads.h), and the model_type then is one that transformers
/// refuses.
std::string scratch_config(const ScratchSettings& settings, const ScratchContext& context);

}  // namespace headwise
