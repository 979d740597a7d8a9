// Ops on rows of logits [T, V]: log-sum-exp, softmax, argmax. Columns are
// contiguous, rows may be apart. Shapes that do not fit throw Error. The same bits come out for any
// number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/core/view.h"

namespace headwise {

/// out[t] = log Σ_v exp(x(t, v)), without overflow; -infinity for a row of nothing but those.
void log_sum_exp(View<const float, 2> x, std::span<float> out);

/// Rows in place: exp(x) / Σ exp(x). All NaN if the row has a NaN, +infinity, or nothing finite.
void softmax(View<float, 2> x);

/// out[t] = the column of the largest value of a row, the first of equal ones; NaN counts as larger
/// than any number. Throws Error for rows without columns.
void argmax(View<const float, 2> x, std::span<int32_t> out);

}  // namespace headwise
