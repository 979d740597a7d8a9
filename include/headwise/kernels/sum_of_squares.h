// Sums of squares: lengths of rows, norms of gradients.
#pragma once

#include <span>

namespace headwise {

/// Σ x², in double, in an order that depends on the size alone.
double sum_of_squares(std::span<const float> x);

}  // namespace headwise
