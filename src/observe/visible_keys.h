// Which keys a row sees.
#pragma once

#include <algorithm>
#include <cstdint>

#include "headwise/kernels/attention.h"

namespace headwise {

struct VisibleKeys {
  int64_t begin = 0, end = 0;
};

/// Of a row at `position` on the key axis of a sequence of `keys` keys.
inline VisibleKeys visible_keys(const AttentionMask& mask, int64_t position, int64_t keys) {
  int64_t begin = 0, end = keys;
  if (mask.left != kUnlimited) begin = std::max(begin, position + mask.shift - mask.left);
  if (mask.right != kUnlimited) end = std::min(end, position + mask.shift + mask.right + 1);
  if (mask.causal) end = std::min(end, position + 1);
  if (mask.first_keys != kUnlimited) end = std::min(end, mask.first_keys);
  return {begin, std::max(begin, end)};
}

}  // namespace headwise
