// Every tensor that the checkpoint of a model has, by its config: name, shape, and where the heads
// lie in it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/model.h"
#include "model/head_tensors.h"
#include "model/init_std.h"

namespace headwise {

struct ParameterTensor {
  std::string name{};
  std::vector<int64_t> shape{};
  Init init{};                              // in a new model
  std::optional<HeadTensor> heads{};        // none: no part of it belongs to a head
  std::optional<int64_t> output_bias_of{};  // the attention, among attention_sites
  bool of_output = false;                   // of the output layer
  bool transposed = false;                  // a matrix stored as [inputs, outputs]
};

/// A tensor that a checkpoint may have, and that says again what another one says.
struct RepeatedTensor {
  std::string name{};
  std::string of{};  // empty: one that is of no use
};

class ParameterTable {
 public:
  struct Options {
    std::string prefix{};  // of the base model's tensors
    /// Whether the checkpoint has a tensor of this name; a new model has none yet.
    std::function<bool(const std::string&)> has = [](const std::string&) { return false; };
    bool fresh_output = true;  // the output layer is not that of the checkpoint
    InitStd init_std{};
  };

  ParameterTable() = default;
  ParameterTable(const ModelConfig& config, Options options);

  /// In the order of the layers.
  std::span<const ParameterTensor> tensors() const { return tensors_; }
  std::span<const RepeatedTensor> repeated() const { return repeated_; }

  // Tensors that no layer reads, but that checkpoints have: constants, and unused parameters.
  bool is_buffer(std::string_view name) const;
  bool is_unused(std::string_view name) const;

  /// Null: the model has no such tensor.
  const ParameterTensor* find(std::string_view name) const;
  /// The same; for the name of a repeated tensor, the one that it copies.
  const ParameterTensor* find_or_repeated(std::string_view name) const;

 private:
  friend class TableBuilder;
  std::vector<std::string_view> buffers_, unused_;  // endings
  std::vector<ParameterTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;  // of tensors_, by name
  std::vector<RepeatedTensor> repeated_;
};

}  // namespace headwise
