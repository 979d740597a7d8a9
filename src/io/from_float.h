// Float32 numbers in any float type.
#pragma once

#include <cstddef>
#include <span>

#include "headwise/io/tensor_file.h"

namespace headwise {

/// The bytes of the numbers as `dtype`, a float type; the nearest, ties to even. `out` has room for
/// all of them. On all threads.
void from_float(Dtype dtype, std::span<const float> values, std::span<std::byte> out);

}  // namespace headwise
