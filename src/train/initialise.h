// What weights are before training: random numbers, as transformers draws them for each
// architecture.
#pragma once

#include <cstdint>
#include <string_view>

#include "headwise/model/config.h"
#include "train/parameter_list.h"

namespace headwise {

/// Fills a tensor by its Init; every tensor has a random stream of its own, by its name.
void initialise(const ParameterList::Tensor& tensor, uint64_t seed);

}  // namespace headwise
