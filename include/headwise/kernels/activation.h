// Activation functions, element by element, and their gradients. Columns are contiguous, rows may
// be apart. Shapes that do not fit throw Error. The same bits come out for any number of threads.
#pragma once

#include "headwise/core/view.h"

namespace headwise {

enum class Activation {
  none,
  relu,
  gelu,       // x Φ(x), with the exact erf
  gelu_tanh,  // the approximation of GPT-2
  silu,       // x sigmoid(x)
  tanh,
};

/// out[T, C] = activation(x); `out` may be x.
void activate(View<const float, 2> x, Activation activation, View<float, 2> out);

/// dx[T, C] = dy * activation'(x), x being what went into the activation; `dx` may be dy or x. The
/// slope of relu at 0 is 0.
void activate_backward(View<const float, 2> x, Activation activation, View<const float, 2> dy,
                       View<float, 2> dx);

}  // namespace headwise
