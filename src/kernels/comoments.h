// How two numbers vary together over keys that come in parts.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace headwise {

struct Comoments {
  int64_t n = 0;
  double mean_x = 0, mean_y = 0;
  double xx = 0, yy = 0, xy = 0;  // sums of products of what they are off their means

  /// Those of both parts together (Chan, Golub, LeVeque 1979).
  void add(const Comoments& part) {
    if (n == 0) {
      *this = part;
      return;
    }
    const double dx = part.mean_x - mean_x, dy = part.mean_y - mean_y;
    const double share = static_cast<double>(part.n) / static_cast<double>(n + part.n);
    const double between = static_cast<double>(n) * share;
    n += part.n;
    mean_x += share * dx;
    mean_y += share * dy;
    xx += part.xx + between * dx * dx;
    yy += part.yy + between * dy * dy;
    xy += part.xy + between * dx * dy;
  }

  void scale_x(double factor) {
    mean_x *= factor;
    xx *= factor * factor;
    xy *= factor;
  }

  /// NaN of fewer than three, which say nothing, and where either varies no more than by rounding.
  double correlation() const {
    const auto least = [&](double mean) { return 1e-12 * mean * mean * static_cast<double>(n); };
    if (n < 3 || !(xx > least(mean_x)) || !(yy > least(mean_y))) {
      return std::numeric_limits<double>::quiet_NaN();
    }
    return xy / std::sqrt(xx * yy);
  }
};

}  // namespace headwise
