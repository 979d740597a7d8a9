// Values of any float type as float32, and the search for those that are not finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headwise/io/tensor_file.h"

namespace headwise {

/// out[i] = the i-th value; `dtype` is a float type. On all threads.
void to_float(Dtype dtype, std::span<const std::byte> bytes, std::span<float> out);

/// The index of the first value that is NaN or infinite as float32, or -1. On all threads.
int64_t first_not_finite(Dtype dtype, std::span<const std::byte> bytes);

}  // namespace headwise
