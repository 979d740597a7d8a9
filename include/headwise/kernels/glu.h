// Gated activation of feed-forward layers: SwiGLU, gated GELU and the like.
#pragma once

#include "headwise/core/view.h"
#include "headwise/kernels/activation.h"

namespace headwise {

/// out[T, F] = activation(gate) * up. Columns are contiguous, rows may be apart; `out` may be gate
/// or up. Shapes that do not fit throw Error.
void glu(View<const float, 2> gate, View<const float, 2> up, Activation activation,
         View<float, 2> out);

/// dgate[T, F] = dout * up * activation'(gate) and dup = dout * activation(gate). Each may lie
/// where gate, up or dout is.
void glu_backward(View<const float, 2> gate, View<const float, 2> up, Activation activation,
                  View<const float, 2> dout, View<float, 2> dgate, View<float, 2> dup);

}  // namespace headwise
