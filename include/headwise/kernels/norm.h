// Normalisation of rows: layer norm and root-mean-square norm. Columns are contiguous, rows may be
// apart. Shapes that do not fit throw Error. The same bits come out for any number of threads.
#pragma once

#include "headwise/core/view.h"

namespace headwise {

/// out[T, C] = (x - mean) / sqrt(variance + epsilon) * weight + bias, mean and variance (biased) of
/// each row. No bias if it is empty; `out` may be x.
void layer_norm(View<const float, 2> x, View<const float, 1> weight, View<const float, 1> bias,
                float epsilon, View<float, 2> out);

/// out[T, C] = x / sqrt(mean of x² + epsilon) * weight, row by row; `out` may be x.
void rms_norm(View<const float, 2> x, View<const float, 1> weight, float epsilon,
              View<float, 2> out);

/// The same for every head of x [T, H, D] by itself, in place; weight [D].
void rms_norm(View<float, 3> x, View<const float, 1> weight, float epsilon);

/// Where gradients of a norm go.
struct NormGradients {
  View<float, 2> dx{};       // [T, C], overwritten unless add_to_dx; may be dy
  bool add_to_dx = false;    // the way to add into the gradient of a residual stream
  View<float, 1> dweight{};  // [C], added to; empty: left out
  View<float, 1> dbias{};    // likewise
};

/// Gradients for dy[T, C], the gradient of the output of layer_norm. Means and variances are
/// recomputed from x.
void layer_norm_backward(View<const float, 2> x, View<const float, 1> weight, float epsilon,
                         View<const float, 2> dy, const NormGradients& gradients);

/// The same for rms_norm, which has no bias.
void rms_norm_backward(View<const float, 2> x, View<const float, 1> weight, float epsilon,
                       View<const float, 2> dy, const NormGradients& gradients);

/// The same for every head of x [T, H, D]; dx holds dy and then dx. dweight [D] is added to, unless
/// empty.
void rms_norm_backward(View<const float, 3> x, View<const float, 1> weight, float epsilon,
                       View<float, 3> dx, View<float, 1> dweight);

}  // namespace headwise
