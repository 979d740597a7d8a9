// Which numbers dropout drops: the draw of (row, column), a pure function.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "headwise/core/random.h"
#include "headwise/kernels/dropout.h"

namespace headwise {

// A row is drawn in chunks: 16 Philox counters with 4 words, each of which has 2 draws. Draw d of
// counter c is column 16 d + c of the chunk, so that vectors of up to 16 lanes hold neighbouring
// columns on every SIMD target.
inline constexpr int64_t kDrawLanes = 16;
inline constexpr int64_t kDrawsPerWord = 2;
inline constexpr int64_t kDrawChunk = kDrawLanes * 4 * kDrawsPerWord;

inline PhiloxBlock draw_counter(uint64_t stream, int64_t row, int64_t column) {
  return {static_cast<uint32_t>(column / kDrawChunk * kDrawLanes + column % kDrawLanes),
          static_cast<uint32_t>(row), static_cast<uint32_t>(stream),
          static_cast<uint32_t>(stream >> 32)};
}

/// Of 2^16 equally likely draws, those below this are dropped: never all of them.
inline uint32_t drop_threshold(float p) {
  return static_cast<uint32_t>(std::min(std::lround(p * 0x1p16f), 0xffffL));
}

/// What is kept is multiplied by this.
inline float keep_factor(uint32_t threshold) {
  return static_cast<float>(0x1p16 / (0x1p16 - threshold));
}

}  // namespace headwise
