// A config.json made to describe a model that is trained for another task than it was saved for.
#pragma once

#include <string>

#include "headwise/model/config.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

struct Adapted {
  std::string json{};
  ModelConfig config{};
  bool fresh = false;  // the output layer is not the saved one
};

/// `saved` is what the text says, with the task that the checkpoint has tensors for. Throws Error
/// if the architecture has no class for the task.
Adapted adapt_config(const std::string& text, const std::string& where, const ModelConfig& saved,
                     const TrainFor& what, const ConfigOptions& options);

/// Throws Error if the architecture has no class for the task.
void check_class(const ModelConfig& saved, Task task);

/// Throws Error for a model that has no loss here.
void check_trainable(const ModelConfig& config);

}  // namespace headwise
