// Weights with their gradients, and the lists that describe those of a whole model: pieces of
// memory for an optimiser, tensors for a checkpoint.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

/// Initialisation of a tensor.
struct Init {
  enum class Kind { zeros, ones, normal };
  Kind kind = Kind::zeros;
  float deviation = 0;    // of the normal distribution
  int64_t zero_row = -1;  // that of padding, or none

  static Init zeros() { return {}; }
  static Init ones() { return {.kind = Kind::ones}; }
  static Init normal(double deviation, int64_t zero_row = -1) {
    return {Kind::normal, static_cast<float>(deviation), zero_row};
  }
};

/// State of a parameter in a pass, shared with the layers.
struct ParameterState {
  bool requires_grad = false;
  bool grad_is_zero = false;  // no gradient was written yet
};
using SharedParameterState = std::shared_ptr<ParameterState>;

/// A gradient to add to.
struct MatrixGradient {
  View<float, 2> sums{};      // none if it is not trained
  bool grad_is_zero = false;  // all 0: may be overwritten instead of accumulated
};

/// A matrix or a vector; at first all 0.
class Weights {
 public:
  Weights() = default;
  explicit Weights(int64_t size, bool requires_grad = true);

  /// Binds the shared state. Unbound weights are not trained.
  void bind(SharedParameterState state) { state_ = std::move(state); }

  bool exists() const { return values_.size() > 0; }
  int64_t size() const { return values_.size(); }
  std::span<float> values() const { return values_.span(); }
  std::span<float> gradient() const { return gradient_.span(); }
  bool requires_grad() const { return state_ != nullptr && state_->requires_grad; }

  View<float, 1> vector() const;
  View<float, 2> matrix(int64_t rows) const;

  // Where gradients are added; none if it is not trained. A matrix that was taken is blank no more.
  View<float, 1> dvector() const;
  MatrixGradient take_gradient(int64_t rows) const;

  /// The gradient of a matrix that was multiplied: += dyᵀ x, if it is trained.
  void add_product(View<const float, 2> dy, View<const float, 2> x) const;

 private:
  SharedParameterState state_;
  Buffer values_, gradient_;
};

/// How a matrix is stored and trained.
struct MatrixForm {
  bool transposed = false;  // in a checkpoint
  bool decays = true;
};

/// Table of parameters and tensors. Layers add theirs when they are constructed.
class ParameterList {
 public:
  struct Copy {
    std::string name, of;  // tensors that checkpoints may have twice
  };
  struct Tensor {
    StoredTensor stored{};
    Init init{};
    bool of_output = false;  // made anew if the checkpoint has none
  };

  /// `has`: whether the checkpoint has a tensor of this name.
  explicit ParameterList(std::function<bool(const std::string&)> has) : has_(std::move(has)) {}

  bool has(const std::string& name) const { return has_(name); }

  SharedParameterState parameter(const std::string& name, std::span<float> values,
                                 std::span<float> gradient, bool decays);
  void tensor(const std::string& name, std::vector<int64_t> shape, std::vector<TensorPart> parts,
              const Init& init);

  /// Weights of a matrix [rows, columns] or a vector that a checkpoint stores as they are, or
  /// transposed.
  Weights matrix(const std::string& parameter, const std::string& tensor, int64_t rows,
                 int64_t columns, const Init& init, const MatrixForm& form = {});
  Weights vector(const std::string& parameter, const std::string& tensor, int64_t size,
                 const Init& init);

  void copy(const std::string& name, const std::string& of) { copies.push_back({name, of}); }

  std::vector<Parameter> parameters{};
  std::vector<SharedParameterState> states{};  // of the parameters
  std::vector<Tensor> tensors{};
  std::vector<Copy> copies{};
  bool in_output = false;  // what is declared now belongs to the output layer
  bool frozen = false;     // weights have no gradients

 private:
  std::function<bool(const std::string&)> has_;
};

}  // namespace headwise
