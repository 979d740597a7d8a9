// A training batch: token ids and labels.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "headwise/kernels/cross_entropy.h"
#include "headwise/model/model.h"

namespace headwise {

/// The tokens of all sequences lie one after the other, without padding.
struct TrainingBatch {
  /// The texts; the encoder's input of encoder-decoders.
  TokenBatch source{};

  /// The decoder's input, text b of both belonging together. Encoder-decoders only.
  TokenBatch target{};

  /// What is wanted: a token id per row of `target`, or of `source` where there is no target, or a
  /// label per text for classification. kIgnoreIndex: nothing.
  std::vector<int32_t> labels{};

  /// Similarity: texts 2i and 2i+1 of `source` are a pair, and scores[i] is its wanted cosine.
  std::vector<float> scores{};

  int64_t tokens() const { return source.rows() + target.rows(); }
  int64_t scored() const {
    return std::ssize(labels) - std::ranges::count(labels, kIgnoreIndex) + std::ssize(scores);
  }
};

}  // namespace headwise
