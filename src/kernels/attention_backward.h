// What attention_backward.cc and its kernels share: the stages of the backward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention_plan.h"

namespace headwise {

struct BackwardData {
  const AttentionPlan& plan;
  View<const float, 3> out, dout;
  View<const float, 2> lse;
  AttentionGradients gradients;
  Buffer delta;  // [T, H]: dout . out of rows that have a gradient
};

/// Keys [key_begin, key_end) of one sequence and key/value head against query rows [row_begin,
/// row_end). No two items that run at once share keys or rows; what they write is overwritten by an
/// item of the first phase, added to by others.
struct BackwardItem {
  int64_t b, kv_head, key_begin, key_end, row_begin, row_end;
  bool first;
};

}  // namespace headwise
