// Seeds for the parts of a computation, each a function of the one seed that was given.
#pragma once

#include <cstdint>

#include "headwise/core/random.h"

namespace headwise {

/// Another seed for every (number, part, purpose).
constexpr uint64_t derived_seed(uint64_t seed, uint64_t number, uint32_t part, uint32_t purpose) {
  const PhiloxBlock words = philox(
      {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), part, purpose}, seed);
  return uint64_t{words[0]} << 32 | words[1];
}

}  // namespace headwise
