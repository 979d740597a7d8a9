// What a graph gives: the output layer of a model, and the embedding of its texts.
#pragma once

#include <filesystem>
#include <string>

#include "export/onnx_layers.h"
#include "export/onnx_texts.h"

namespace headwise::onnx {

/// The rows [B, N, C] that outputs are made of, and what they are called.
struct HiddenStates {
  Value rows{};
  Texts& texts;
  std::string tokens{};  // the name of the extent N
};

/// The output of the task, or nothing; `prefix` is the base model's. False: the model has none.
bool add_task_output(const Layers& layers, const HiddenStates& hidden, const std::string& prefix);

void add_hidden_output(const Layers& layers, const HiddenStates& hidden);

/// What modules.json of the folder describes. False: there is none.
bool add_sentence_output(const Layers& layers, const HiddenStates& hidden,
                         const std::filesystem::path& folder);

}  // namespace headwise::onnx
