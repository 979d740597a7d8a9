// Distributions on top of the Philox stream.
#include "headwise/core/random.h"

#include <cmath>
#include <numbers>

namespace headwise {

uint32_t Random::below(uint32_t n) {
  uint64_t product = uint64_t{next()} * n;
  if (static_cast<uint32_t>(product) < n) {
    const uint32_t threshold = -n % n;
    while (static_cast<uint32_t>(product) < threshold) product = uint64_t{next()} * n;
  }
  return static_cast<uint32_t>(product >> 32);
}

float Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * uniform()));
}

}  // namespace headwise
