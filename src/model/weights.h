// The weights of a layer: packed to run, or plain, with a gradient, to train.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/kernels/gemm.h"

namespace headwise {

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

/// Where a gradient for the input of a layer goes.
struct InputGradient {
  View<float, 2> dx{};
  bool add = false;  // instead of overwriting
};

/// A matrix [outputs, inputs], or a vector: a matrix of one row.
class Weights {
 public:
  Weights() = default;
  /// Plain, with room for a gradient; at first all 0.
  Weights(int64_t rows, int64_t columns, bool requires_grad = true);
  /// Plain, never trained.
  Weights(Buffer values, int64_t rows) : rows_(rows), values_(std::move(values)) {}
  /// A matrix to multiply with, never trained.
  explicit Weights(PackedWeights packed) : rows_(packed.outputs()), packed_(std::move(packed)) {}

  /// Binds the shared state. Unbound weights are not trained.
  void bind(SharedParameterState state) { state_ = std::move(state); }

  bool exists() const { return rows_ > 0; }
  int64_t rows() const { return rows_; }
  bool requires_grad() const { return state_ != nullptr && state_->requires_grad; }

  // Plain weights.
  int64_t size() const { return values_.size(); }
  std::span<float> values() const { return values_.span(); }
  std::span<float> gradient() const { return gradient_.span(); }
  View<float, 1> vector() const;
  View<float, 2> matrix() const;

  // Where gradients are added; none if it is not trained. A matrix that was taken is blank no more.
  View<float, 1> dvector() const;
  MatrixGradient take_gradient() const;

  bool is_packed() const { return packed_.outputs() > 0; }
  const PackedWeights& packed() const { return packed_; }

  /// out [M, outputs] = x Wᵀ, then the epilogue: the same bits for packed and for plain weights.
  void multiply(View<const float, 2> x, View<float, 2> out, const Epilogue& epilogue) const;
  /// Its mirror for x.
  void multiply_backward(View<const float, 2> dy, const InputGradient& to) const;
  /// Its mirror for the weights: += dyᵀ x, if they are trained.
  void add_gradient(View<const float, 2> dy, View<const float, 2> x) const;

 private:
  int64_t rows_ = 0;
  SharedParameterState state_;
  Buffer values_, gradient_;
  PackedWeights packed_;
};

}  // namespace headwise
