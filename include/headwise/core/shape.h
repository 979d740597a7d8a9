// Sizes whose arithmetic cannot overflow silently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace headwise {

/// a * b and a + b for sizes; throw Error on a negative operand or on overflow of int64.
int64_t checked_mul(int64_t a, int64_t b);
int64_t checked_add(int64_t a, int64_t b);

/// The number of elements of a shape. The empty shape is a scalar: 1.
int64_t element_count(std::span<const int64_t> shape);

/// element_count(shape) * bytes_per_element as a size for allocation.
size_t byte_count(std::span<const int64_t> shape, size_t bytes_per_element);

/// "[2, 8, 64]", for messages.
std::string to_string(std::span<const int64_t> shape);

}  // namespace headwise
