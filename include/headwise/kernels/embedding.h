// Embedding: gathers rows of a table by index, and computes the gradient of the table. Columns are
// contiguous, rows may be apart. Shapes that do not fit, and rows that the table does not have,
// throw Error before anything changes. The same bits come out for any number of threads.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/core/view.h"

namespace headwise {

/// out[T, C] = scale * table[rows[t], C], added to what `out` holds if `add`.
void embedding(View<const float, 2> table, std::span<const int32_t> rows, float scale, bool add,
               View<float, 2> out);

/// dtable[rows[t], C] += scale * dout[t, C], in the order of t.
void embedding_backward(View<const float, 2> dout, std::span<const int32_t> rows, float scale,
                        View<float, 2> dtable);

}  // namespace headwise
