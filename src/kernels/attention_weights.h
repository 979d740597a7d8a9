// What attention_weights.cc hands to its kernels: rows whose weights are wanted again.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention_plan.h"

namespace headwise {

/// Rows t of sequence b, on the query heads of one key/value head.
struct MapItem {
  int64_t b, kv_head;
  std::span<const int64_t> rows;    // of [0, T)
  std::span<float* const> weights;  // [rows * heads of kv_head]: where each row's M weights go
};

/// An attention whose heads are compared; `first` is where they begin among those of all.
struct JsHeads {
  const AttentionPlan* plan;
  View<const float, 2> lse;
  int64_t first;
};

/// Rows [begin, end) of sequence b, all heads against all heads.
struct JsItem {
  int64_t b, begin, end;
};

}  // namespace headwise
