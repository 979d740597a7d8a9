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

}  // namespace headwise
