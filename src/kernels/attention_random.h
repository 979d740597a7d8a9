// Which weights and heads dropout drops: pure functions of the seed and of what is dropped.
#pragma once

#include <cstdint>

#include "headwise/core/random.h"

namespace headwise {

/// Something is dropped iff its random word is below this: with probability p to 2^-32.
inline uint64_t dropout_threshold(float p) { return static_cast<uint64_t>(double{p} * 0x1p32); }

/// The four words of a counter are for four neighbouring rows, counters side by side for
/// neighbouring keys: vectors of any width hold neighbouring keys, and few keys waste little.
inline constexpr int64_t kDropoutRows = 4;

inline PhiloxBlock weight_counter(int64_t row, int64_t head, int64_t key) {
  const int64_t rows = row / kDropoutRows;
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(rows),
          static_cast<uint32_t>(rows >> 32), static_cast<uint32_t>(head) << 1};
}

inline uint32_t weight_word(uint64_t seed, int64_t row, int64_t head, int64_t key) {
  return philox(weight_counter(row, head, key), seed)[row % kDropoutRows];
}

/// Odd in its last word, where weight counters are even.
inline uint32_t head_word(uint64_t seed, int64_t sequence, int64_t head) {
  return philox({static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32), 0,
                 static_cast<uint32_t>(head) << 1 | 1},
                seed)[0];
}

}  // namespace headwise
