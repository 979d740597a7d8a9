// The modules of a sentence-transformers folder that make one vector of the hidden states of a
// text.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/kernels/activation.h"
#include "model/layers.h"
#include "model/pooling.h"

namespace headwise {

struct PoolingModule {
  std::vector<Pool> modes{};
  std::filesystem::path place{};  // of its config, inside the folder
};
struct DenseModule {
  std::filesystem::path place{};  // of its weights, inside the folder
  Linear linear{};
  Activation activation = Activation::none;
  Buffer weights{};  // [outputs, inputs], for the way back
};
struct NormalizeModule {};
using SentenceModule = std::variant<PoolingModule, DenseModule, NormalizeModule>;

/// What modules.json of a folder names after the transformer, a pooling first; empty if there is no
/// such file. Throws Error for a module that is not known.
std::vector<SentenceModule> read_sentence_modules(const std::filesystem::path& folder);

}  // namespace headwise
