// Matrix multiplication (GEMM) with bias, activation, residual and accumulation, and with weights
// that are packed once and used many times. All matmuls go through this header.
//
// Every element of a product is a sum over k in an order that depends on K alone. So the same bits
// come out for any number of threads, for packed and for plain weights, and for a row whatever
// other rows are in the batch. They differ between SIMD targets.
//
// Inputs may have any strides: a transposed operand is transposed(view). Outputs, residuals and
// bias have contiguous columns (rows may be apart) and overlap no input. Any extent may be 0.
// Shapes that do not fit throw Error.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/kernels/activation.h"

namespace headwise {

/// Epilogue of a matmul: out = activation([out +] product + bias) + residual.
struct Epilogue {
  bool accumulate = false;  // start from what `out` holds: the way to add into a residual stream
  View<const float, 1> bias{};  // [N], or none
  Activation activation = Activation::none;
  View<const float, 2> residual{};  // [M, N], or none
};

/// How weights are stored. Products are computed in float32 whatever this is.
enum class WeightType { float32, float16, bfloat16 };

/// Weights in the order in which the kernel reads them. This is a copy: later changes of the
/// original have no effect.
class PackedWeights {
 public:
  PackedWeights() = default;

  /// From [N, K] (outputs, inputs), as nn.Linear stores them. GPT-2's Conv1D stores [K, N]: pass
  /// transposed(weights).
  explicit PackedWeights(View<const float, 2> weights);

  /// The bits of float16 or bfloat16 numbers, which stay 16 bits: half the memory to read, and the
  /// same results bit for bit as from the same numbers in float32. Throws Error for float32.
  PackedWeights(View<const uint16_t, 2> weights, WeightType type);

  int64_t outputs() const { return outputs_; }
  int64_t inputs() const { return inputs_; }
  WeightType type() const { return type_; }
  const std::byte* panels() const { return panels_.data(); }  // only the kernel knows the order

 private:
  int64_t outputs_ = 0;
  int64_t inputs_ = 0;
  WeightType type_ = WeightType::float32;
  AlignedBuffer<std::byte> panels_;
};

/// out[M, N] = x[M, K] · Wᵀ, then the epilogue.
void linear(View<const float, 2> x, const PackedWeights& weights, View<float, 2> out,
            const Epilogue& epilogue = {});

/// The same for outputs [begin, begin + out's columns) alone; `begin` is a multiple of
/// kPackedColumns.
inline constexpr int64_t kPackedColumns = 16;
void linear_columns(View<const float, 2> x, const PackedWeights& weights, int64_t begin,
                    View<float, 2> out, const Epilogue& epilogue = {});

/// dx[M, K] = dy[M, N] · W, or added to dx: the mirror of linear for x, with the bits that gemm
/// gives with the plain weights.
void linear_backward(View<const float, 2> dy, const PackedWeights& weights, View<float, 2> dx,
                     bool accumulate = false);

/// c[M, N] = a[M, K] · b[K, N], then the epilogue. The way for the backward pass of plain weights:
///   dX = dY · W       gemm(dy, w, dx)
///   dW += dYᵀ · X     gemm(transposed(dy), x, dw, {.accumulate = true})
void gemm(View<const float, 2> a, View<const float, 2> b, View<float, 2> c,
          const Epilogue& epilogue = {});

/// sums[N] += Σ_m x[M, N], the gradient of a bias; x has contiguous columns.
void sum_rows(View<const float, 2> x, View<float, 1> sums);

}  // namespace headwise
