// What a model holds and computes once heads are cut out.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

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

/// What plans expect, before and after: "heads"; "parameters" and "multiply_adds".
using Expected = std::map<std::string, double>;
void expect(const std::string& name, double before, double after, Expected& expected);
void expect_heads(std::span<const uint8_t> kept, Expected& expected);
void expect_cost(const ModelSummary& summary, std::span<const uint8_t> kept, Expected& expected);

/// The whole number of heads in a share of them. Shares are written in decimal: 0.7 of 10 are 7.
int64_t heads_in_share(double share, int64_t heads);

}  // namespace headwise
