// Unpacked weights are those that were packed.
#include "headwise/kernels/unpack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"

namespace headwise {
namespace {

struct Size {
  int64_t rows, columns;
};
constexpr Size kSizes[] = {{1, 1}, {16, 64}, {17, 5}, {50, 131}, {96, 33}};

/// All rows, and runs of rows that begin anywhere in a panel, are `expected` [N, K].
void expect_rows(const PackedWeights& weights, const std::vector<float>& expected) {
  const int64_t N = weights.outputs(), K = weights.inputs();
  for (int64_t begin = 0; begin <= N; begin += 7) {
    for (const int64_t end : {begin, std::min(begin + 3, N), N}) {
      const Buffer rows((end - begin) * K);
      unpack(weights, begin, rows.view({end - begin, K}));
      for (int64_t i = 0; i < rows.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(rows[i]),
                  std::bit_cast<uint32_t>(expected[begin * K + i]))
            << N << " x " << K << ", rows " << begin << " to " << end << ", number " << i;
      }
    }
  }
}

TEST(Unpack, GivesFloatsBack) {
  Random random(1);
  for (const auto& [N, K] : kSizes) {
    std::vector<float> numbers(N * K);
    for (float& number : numbers) number = random.normal();
    expect_rows(PackedWeights(View<const float, 2>(numbers.data(), {N, K})), numbers);
  }
}

/// By the definition of the types.
float value_of(uint16_t bits, WeightType type) {
  if (type == WeightType::bfloat16) return std::bit_cast<float>(uint32_t{bits} << 16);
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const float sign = bits & 0x8000 ? -1.f : 1.f;
  if (exponent == 31) return sign * std::numeric_limits<float>::infinity();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

TEST(Unpack, GivesNumbersOf16BitsExactly) {
  for (const WeightType type : {WeightType::float16, WeightType::bfloat16}) {
    const bool bfloat = type == WeightType::bfloat16;
    std::vector<uint16_t> bits;  // all numbers, and infinities
    for (uint32_t all = 0; all < 0x10000; ++all) {
      const uint32_t magnitude = all & 0x7fff, infinity = bfloat ? 0x7f80 : 0x7c00;
      if (magnitude <= infinity) bits.push_back(static_cast<uint16_t>(all));
    }
    std::vector<float> expected;
    for (const uint16_t one : bits) expected.push_back(value_of(one, type));
    const auto N = std::ssize(bits);
    const PackedWeights weights(View<const uint16_t, 2>(bits.data(), {N, 1}), type);
    const Buffer got(N);
    unpack(weights, got.view({N, 1}));
    for (int64_t i = 0; i < N; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected[i])) << bits[i];
    }
  }
}

TEST(Unpack, RefusesRowsThatAreNotThere) {
  const std::vector<float> numbers(6);
  const PackedWeights weights(View<const float, 2>(numbers.data(), {3, 2}));
  const Buffer room(4);
  EXPECT_THROW(unpack(weights, 2, room.view({2, 2})), Error);
  EXPECT_THROW(unpack(weights, -1, room.view({2, 2})), Error);
  EXPECT_THROW(unpack(weights, 0, room.view({1, 4})), Error);
}

}  // namespace
}  // namespace headwise
