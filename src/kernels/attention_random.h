// Which weights and heads dropout drops: pure functions of the seed and of what is dropped.
#pragma once

#include <cstdint>

#include "headwise/core/random.h"

namespace headwise {

/// Something is dropped iff its random word is below this: with probability p to 2^-32.
inline uint64_t dropout_threshold(float p) { return static_cast<uint64_t>(double{p} * 0x1p32); }

/// Keys are drawn in chunks of 64: 16 Philox counters of 4 words, word w of counter c being key 16
/// w + c of the chunk, so that vectors of up to 16 lanes hold neighbouring keys on every SIMD
/// target.
inline constexpr int64_t kDropoutChunk = 64;
inline constexpr int64_t kDropoutLanes = 16;

inline PhiloxBlock weight_counter(int64_t row, int64_t head, int64_t key) {
  return {static_cast<uint32_t>(key / kDropoutChunk * kDropoutLanes + key % kDropoutLanes),
          static_cast<uint32_t>(row), static_cast<uint32_t>(row >> 32),
          static_cast<uint32_t>(head) << 1};
}

inline uint32_t weight_word(uint64_t seed, int64_t row, int64_t head, int64_t key) {
  return philox(weight_counter(row, head, key), seed)[key % kDropoutChunk / kDropoutLanes];
}

/// Odd in its last word, where weight counters are even.
inline uint32_t head_word(uint64_t seed, int64_t sequence, int64_t head) {
  return philox({static_cast<uint32_t>(sequence), static_cast<uint32_t>(sequence >> 32), 0,
                 static_cast<uint32_t>(head) << 1 | 1},
                seed)[0];
}

}  // namespace headwise
