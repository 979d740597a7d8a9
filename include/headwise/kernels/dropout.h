// Dropout of single numbers. Whether (row, column) is dropped is a pure function of (seed, stream,
// row, column), so that backward repeats the draws of forward.
//
// A draw has 16 bits: p counts as the nearest multiple of 2^-16 below 1, and what is kept is scaled
// by 1 / (1 - that), so that the expectation is exact. Columns are contiguous, rows may be apart.
// Shapes that do not fit, or p outside [0, 1), throw Error. The same bits come out for any number
// of threads and on every SIMD target.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/core/view.h"

namespace headwise {

struct Dropout {
  float p = 0;  // of being dropped; 0 is the identity
  uint64_t seed = 0;
  uint64_t stream = 0;              // a different one for every use of the same seed
  std::span<const int64_t> rows{};  // [T], which rows of the whole these are; empty: its first ones
};

/// out[T, C] = x / (1 - p), or 0 where dropped; `out` may be x. Its own gradient: dropout(dy) is
/// dx.
void dropout(View<const float, 2> x, const Dropout& dropout, View<float, 2> out);

/// out[T, C] = residual + dropout(x); `out` may be either.
void add_dropout(View<const float, 2> x, const Dropout& dropout, View<const float, 2> residual,
                 View<float, 2> out);

}  // namespace headwise
