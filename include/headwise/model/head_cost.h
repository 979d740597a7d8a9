// What the heads of an attention cost, beside one head as wide as all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "headwise/model/summary.h"

namespace headwise {

/// Of one attention, for a text of some length.
struct HeadCost {
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t parameters = 0, parameters_without_output = 0;  // the latter without W_O and its bias
  int64_t multiply_adds = 0;
  int64_t distributions = 0;  // over keys: one for each head and token
};

struct OneHeadComparison {
  std::string layer{};  // "L0", the first of those with most heads
  int64_t tokens = 0;
  HeadCost heads{}, one{};
};

/// Nothing for a model without heads.
std::optional<OneHeadComparison> compare_with_one_head(const ModelSummary& summary, int64_t tokens);

}  // namespace headwise
