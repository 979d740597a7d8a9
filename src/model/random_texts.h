// Texts of random ids, for passes of which only the time or the rounding is of interest.
#pragma once

#include <cstdint>

#include "headwise/model/model.h"

namespace headwise {

/// What a model reads.
struct RandomTexts {
  TokenBatch source{};
  TokenBatch target{};  // of encoder-decoders
};

/// `texts` of `tokens` each, or of as many as the model has positions for; no padding among them.
RandomTexts random_texts(const ModelConfig& config, int64_t texts, int64_t tokens, uint64_t seed);

}  // namespace headwise
