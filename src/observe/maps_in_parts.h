// Attention maps of many rows, some at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "headwise/kernels/attention.h"
#include "headwise/model/multi_head_attention.h"

namespace headwise {

inline constexpr int64_t kMapNumbers = int64_t{1} << 22;  // weights that are held at once

/// Calls use(begin, end, maps) for one part of the rows after the other: `maps` are those of rows
/// [begin, end), at most kMapNumbers weights or one row.
template <class F>
void maps_in_parts(const MultiHeadAttention& layer, const Attention& attention,
                   std::span<const int64_t> rows, const F& use) {
  const std::span<const int64_t> offsets = attention.q_offsets;
  const std::span<const int64_t> keys = attention.k_offsets.empty() ? offsets : attention.k_offsets;
  const auto weights_of = [&](int64_t row) {
    const auto end = std::ranges::upper_bound(offsets, row) - offsets.begin();
    return layer.shape().H * (keys[end] - keys[end - 1]);
  };
  for (int64_t begin = 0, end; begin < std::ssize(rows); begin = end) {
    int64_t numbers = weights_of(rows[begin]);
    for (end = begin + 1; end < std::ssize(rows); ++end) {
      numbers += weights_of(rows[end]);
      if (numbers > kMapNumbers) break;
    }
    use(begin, end, layer.maps(attention, rows.subspan(begin, end - begin)));
  }
}

}  // namespace headwise
