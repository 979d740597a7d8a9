// The weights of a model in training: pieces of memory for an optimiser, tensors for a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/train/trainable_model.h"
#include "model/weight_source.h"

namespace headwise {

/// Table of parameters and tensors. Layers add theirs when they are constructed.
class ParameterList : public WeightSource {
 public:
  struct Copy {
    std::string name, of;  // tensors that checkpoints may have twice
  };

  /// `has`: whether the checkpoint has a tensor of this name.
  explicit ParameterList(std::function<bool(const std::string&)> has) : has_(std::move(has)) {}

  bool has(const std::string& name) const override { return has_(name); }

  bool packs() const override { return false; }
  Table table(const LayerName& name, int64_t rows, int64_t width) override;
  std::shared_ptr<const Weights> factor(Table& table) override { return table.weights; }
  Dtype tensor(const std::string& name, std::vector<int64_t> shape,
               std::vector<TensorPart> parts) override;
  SharedParameterState parameter(const std::string& name, std::span<float> values,
                                 std::span<float> gradient, bool decays) override;
  void copy(const std::string& name, const std::string& of) override {
    copies.push_back({name, of});
  }

  std::vector<Parameter> parameters{};
  std::vector<SharedParameterState> states{};  // of the parameters
  std::vector<StoredTensor> tensors{};
  std::vector<Copy> copies{};

 private:
  PackedWeights packed(const std::string& name, int64_t outputs, int64_t inputs,
                       bool transposed) override;

  std::function<bool(const std::string&)> has_;
};

}  // namespace headwise
