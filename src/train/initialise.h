// What weights are before training: random numbers, as transformers draws them for each
// architecture.
#pragma once

#include <cstdint>

#include "headwise/model/stored_tensor.h"
#include "model/init_std.h"

namespace headwise {

/// Fills a tensor; every tensor has a random stream of its own, by its name.
void initialise(const StoredTensor& tensor, const Init& init, uint64_t seed);

}  // namespace headwise
