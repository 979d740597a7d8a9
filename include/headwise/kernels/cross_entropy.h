// The output layer and its loss in one op, in tiles of rows: the logits of all rows are never
// stored at once. Columns are contiguous, rows may be apart. Shapes that do not fit throw Error.
// The same bits come out for any number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/core/view.h"
#include "headwise/kernels/gemm.h"

namespace headwise {

/// A target or label that is not scored, as in PyTorch.
inline constexpr int32_t kIgnoreIndex = -100;

/// logits[t] = x[t] · weightsᵀ + bias, scored against a target each. Rows with target kIgnoreIndex
/// are not scored and cost nothing.
struct CrossEntropy {
  View<const float, 2> x{};               // [T, C]
  View<const float, 2> weights{};         // [V, C]
  const PackedWeights* packed = nullptr;  // the same, instead of `weights`
  View<const float, 1> bias{};            // [V], or none
  std::span<const int32_t> targets{};     // [T], each in [0, V), or kIgnoreIndex
  /// Label smoothing in [0, 1]: this share of the target's weight is spread over all of V.
  float label_smoothing = 0;
};

/// Where the gradients of scale * loss go; empty ones are left out.
struct CrossEntropyGradients {
  float scale = 1;
  View<float, 2> dx{};         // [T, C], overwritten, apart from x; 0 for rows that are not scored
  View<float, 2> dweights{};   // [V, C], added to
  bool zero_dweights = false;  // dweights are all 0 and may be overwritten
  View<float, 1> dbias{};      // [V], added to
};

struct CrossEntropyLoss {
  double loss = 0;     // Σ -Σ_v q(v) log p(v), q the smoothed target
  double nll = 0;      // Σ -log p(target)
  int64_t scored = 0;  // rows
  int64_t correct =
      0;  // of those, where the target has the largest logit (the first of equal ones)
};

/// The loss, and its gradients unless null.
CrossEntropyLoss cross_entropy(const CrossEntropy& problem, const CrossEntropyGradients* gradients);

/// nll[t] = -log softmax(x[t] · Wᵀ + bias)[targets[t]], each target a class; bias [V], or none. A
/// row gets the same bits whatever other rows there are.
void row_losses(View<const float, 2> x, const PackedWeights& weights, View<const float, 1> bias,
                std::span<const int32_t> targets, std::span<double> nll);

}  // namespace headwise
