// Rotary position embedding (Su et al. 2021): pairs of columns of queries and keys are rotated by
// angles proportional to the position of the row.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"

namespace headwise {

/// Cosines and sines for positions 0 … positions - 1.
class RotaryTable {
 public:
  RotaryTable() = default;

  /// Pair i turns by position * inverse_frequencies[i], an angle rounded to float32 as in the
  /// training of the models that use it: far into a text the rounding shows. Both cosines and sines
  /// are multiplied by `attention_factor` (1 but for some scaled variants).
  RotaryTable(int64_t positions, std::span<const float> inverse_frequencies,
              double attention_factor = 1);

  int64_t positions() const { return positions_; }
  int64_t width() const { return 2 * pairs_; }  // the number of rotated columns of a head
  View<const float, 2> cosines() const { return cosines_.view({positions_, pairs_}); }
  View<const float, 2> sines() const { return sines_.view({positions_, pairs_}); }

 private:
  int64_t positions_ = 0;
  int64_t pairs_ = 0;
  Buffer cosines_, sines_;
};

/// Rotates the first R = table.width() columns of every head of x [T, H, D], in place. Pair i is
/// columns i and i + R/2 (Llama, GPT-NeoX). Columns are contiguous, rows and heads may be apart.
/// Throws Error, and changes nothing, for a position outside the table or shapes that do not fit.
void rotate(View<float, 3> x, std::span<const int64_t> positions, const RotaryTable& table);

/// The gradient of rotate, in place: the inverse rotation (exactly for an attention factor of 1).
/// Throws as rotate does.
void rotate_back(View<float, 3> x, std::span<const int64_t> positions, const RotaryTable& table);

}  // namespace headwise
