// Every 16-bit float as float32, the rounding of float64, and where values are not finite.
#include "io/to_float.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace headwise {
namespace {

template <class T>
std::vector<float> converted(Dtype dtype, const std::vector<T>& values) {
  std::vector<float> out(values.size());
  to_float(dtype, std::as_bytes(std::span(values)), out);
  return out;
}

std::vector<uint16_t> all_16_bits() {
  std::vector<uint16_t> bits(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  return bits;
}

/// The value by the definition of a binary format with these many bits.
double defined(uint16_t bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

void expect_all_as_defined(Dtype dtype, int exponent_bits) {
  const auto bits = all_16_bits();
  const auto values = converted(dtype, bits);
  for (size_t i = 0; i < bits.size(); ++i) {
    const double expected = defined(bits[i], exponent_bits);
    ASSERT_EQ(std::signbit(values[i]), bits[i] >> 15 != 0) << i;
    ASSERT_TRUE(values[i] == expected || (std::isnan(values[i]) && std::isnan(expected))) << i;
  }
}

TEST(ToFloat, IsExactForEveryFloat16) { expect_all_as_defined(Dtype::kF16, 5); }
TEST(ToFloat, IsExactForEveryBfloat16) { expect_all_as_defined(Dtype::kBF16, 8); }

TEST(ToFloat, RoundsFloat64AndCopiesFloat32) {
  const std::vector<double> doubles = {0.1, -1e-50, 1e300, 1 + 0x1p-24, 1 + 0x1.8p-24};
  EXPECT_EQ(converted(Dtype::kF64, doubles),
            (std::vector<float>{0.1f, -0.0f, INFINITY, 1.0f, 1 + 0x1p-23f}));
  const std::vector<float> floats = {0.1f, -0.0f, 1e-45f};
  EXPECT_EQ(converted(Dtype::kF32, floats), floats);
}

TEST(FirstNotFinite, FindsOneAnywhere) {
  const size_t panel = 1 << 22;
  for (const size_t at : {size_t{0}, size_t{4095}, size_t{4096}, panel - 1, panel, panel + 999}) {
    std::vector<float> values(panel + 1000, std::numeric_limits<float>::max());
    EXPECT_EQ(first_not_finite(Dtype::kF32, std::as_bytes(std::span(values))), -1);
    values[at] = NAN;
    values.back() = INFINITY;
    EXPECT_EQ(first_not_finite(Dtype::kF32, std::as_bytes(std::span(values))),
              static_cast<int64_t>(at));
  }
}

TEST(FirstNotFinite, KnowsEveryFloatType) {
  const std::vector<uint16_t> half = {0x7bff, 0x0001, 0xfbff, 0x7c00};
  EXPECT_EQ(first_not_finite(Dtype::kF16, std::as_bytes(std::span(half))), 3);
  const std::vector<uint16_t> brain = {0x7f7f, 0x7c00, 0xff81};
  EXPECT_EQ(first_not_finite(Dtype::kBF16, std::as_bytes(std::span(brain))), 2);
  const std::vector<double> large = {3.4e38, 1e39};
  EXPECT_EQ(first_not_finite(Dtype::kF64, std::as_bytes(std::span(large))), 1);
  EXPECT_EQ(first_not_finite(Dtype::kF32, {}), -1);
}

}  // namespace
}  // namespace headwise
