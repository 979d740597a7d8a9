// How the numbers of a row vary, alone and together with those of another.
#pragma once

#include <cstdint>

namespace headwise {

/// Of the columns in which `counted` is 1, n in all; elsewhere it is 0, and y too.
struct Spread {
  double mean = 0;      // of x
  double squares = 0;   // Σ (x - mean)²
  double products = 0;  // Σ (x - mean) y

  /// More than rounding would.
  bool varies(int64_t n) const { return squares > 1e-12 * mean * mean * static_cast<double>(n); }
};
Spread spread(const float* x, const float* y, const float* counted, int64_t n, int64_t columns);

}  // namespace headwise
