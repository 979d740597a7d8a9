// What a model holds and computes once heads are cut out.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/model/config.h"
#include "headwise/model/model.h"
#include "headwise/model/multi_head_attention.h"
#include "headwise/model/summary.h"

namespace headwise {

/// An attention without the heads that are not kept: kept [heads of the attention].
AttentionConfig without_heads(const AttentionConfig& attention, std::span<const uint8_t> kept);

/// The layer of an attention with what is kept of all heads of the model.
MultiHeadAttentionConfig kept_layer(const ModelConfig& config, const AttentionSite& site,
                                    std::span<const uint8_t> kept);

struct ModelCost {
  int64_t parameters = 0;
  int64_t multiply_adds = 0;  // of all blocks; the output layer is not counted
};

/// With what is kept of all heads; for one text of so many tokens, and as many in a decoder.
ModelCost cost_of(const ModelSummary& summary, std::span<const uint8_t> kept, int64_t tokens = 128);

}  // namespace headwise
