// How much a loss would change with the gate of each head: gradients of single examples, all heads
// and all examples of a batch in one backward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/observe/evaluation.h"

namespace headwise {

struct GradientOptions {
  std::vector<float> gates{};  // [heads], where the gradients are taken; empty: all 1
  uint64_t seed = 0;           // of the projections of fidelity
  int64_t batch_rows = 2048;
  /// Examples done so far, and all. May throw to stop.
  std::function<void(int64_t done, int64_t total)> progress{};
};

struct GateGradients {
  /// [heads], the mean over examples: of |∂L(x)/∂g|, L(x) the loss of an example, of tokens their
  /// mean; for similarity of |∂cos(x)/∂g|; for fidelity, where that would be 0, of ½ |∂û/∂g|², û
  /// the normalised pooled output, from 8 random projections.
  std::vector<double> scores{};
  int64_t examples = 0;  // with something that is scored
};

/// Throws Error for a model that has no loss for labels.
GateGradients gate_gradients(const Model& model, const SentencePooling& pooling,
                             const EvaluationSet& set, const GradientOptions& options);

}  // namespace headwise
