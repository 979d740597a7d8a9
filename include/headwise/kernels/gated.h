// Gated activation of feed-forward layers: SwiGLU, gated GELU and the like.
#pragma once

#include "headwise/core/view.h"
#include "headwise/kernels/gemm.h"

namespace headwise {

/// out[T, F] = activation(gate) * up. Columns are contiguous, rows may be apart; `out` may be gate
/// or up. Shapes that do not fit throw Error.
void gate(View<const float, 2> gate, View<const float, 2> up, Activation activation,
          View<float, 2> out);

}  // namespace headwise
