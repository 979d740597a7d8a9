// Seeds for the parts of a computation, derived from one seed.
#pragma once

#include <cstdint>

#include "headwise/core/random.h"

namespace headwise {

/// A different seed for every (number, part, purpose).
constexpr uint64_t derived_seed(uint64_t seed, uint64_t number, uint32_t part, uint32_t purpose) {
  const PhiloxBlock words = philox(
      {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), part, purpose}, seed);
  return uint64_t{words[0]} << 32 | words[1];
}

}  // namespace headwise
