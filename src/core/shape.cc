// Checked size arithmetic on compiler builtins.
#include "headwise/core/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "headwise/core/error.h"

namespace headwise {
namespace {

void require_non_negative(int64_t a, int64_t b) {
  if (a >= 0 && b >= 0) return;
  throw Error({.what = "size: a dimension is negative",
               .got = fmt::format("{}", a < 0 ? a : b),
               .expected = "0 or more"});
}

[[noreturn]] void overflow(int64_t a, int64_t b, char op) {
  throw Error({.what = "size: the number of elements overflows",
               .got = fmt::format("{} {} {}", a, op, b),
               .expected = fmt::format("at most {}", INT64_MAX)});
}

}  // namespace

int64_t checked_mul(int64_t a, int64_t b) {
  require_non_negative(a, b);
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) overflow(a, b, '*');
  return product;
}

int64_t checked_add(int64_t a, int64_t b) {
  require_non_negative(a, b);
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) overflow(a, b, '+');
  return sum;
}

int64_t element_count(std::span<const int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count = checked_mul(count, extent);
  return count;
}

size_t byte_count(std::span<const int64_t> shape, size_t bytes_per_element) {
  return static_cast<size_t>(
      checked_mul(element_count(shape), static_cast<int64_t>(bytes_per_element)));
}

std::string to_string(std::span<const int64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace headwise
