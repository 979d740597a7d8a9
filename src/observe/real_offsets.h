// How far the words of a relation stand apart in real English text.
//
// Built-in probe sentences vary the distance on purpose, so that the same accuracy says less there:
// in real text most determiners stand beside their noun. Items of probes are therefore weighted by
// how often their distance occurs in real text.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace headwise {

struct RealOffsets {
  static constexpr int64_t kFarthest = 9;  // stands for all that are farther

  std::string_view question{};                 // "det/to_head"
  int32_t best = 0;                            // what the best fixed offset finds, in 1/10000
  std::array<int32_t, 2 * kFarthest> share{};  // of -9 … -1, 1 … 9, in 1/10000
};

/// The distances of the training part of UD English EWT. Null for relations that probes lack, and
/// for compounds: in probes they are always beside their noun, so that farther ones are not seen.
const RealOffsets* real_offsets(std::string_view question);

/// Weights of items at these offsets, so that their distances are as frequent as in real text. A
/// distance that few items have is stood for by the nearest ones on the same side. The sum is below
/// 1 if a side is missing: what is never seen is not found. Weights are multiples of 2^-30, so that
/// sums do not depend on their order.
std::vector<int64_t> offset_weights(const RealOffsets& real, std::span<const int64_t> offsets);
inline constexpr int64_t kWeightOne = int64_t{1} << 30;

}  // namespace headwise
