// Packed weights as the numbers that they were made of.
#pragma once

#include <cstdint>

#include "headwise/core/view.h"
#include "headwise/kernels/gemm.h"

namespace headwise {

/// out[R, K] = the rows [begin, begin + R) of the weights [N, K], in float32: exact, whatever their
/// type. Columns of out are contiguous. Throws Error for rows that are not there.
void unpack(const PackedWeights& weights, int64_t begin, View<float, 2> out);

/// All rows.
inline void unpack(const PackedWeights& weights, View<float, 2> out) { unpack(weights, 0, out); }

}  // namespace headwise
