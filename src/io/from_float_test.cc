// Every 16-bit float survives the way to float32 and back; what lies between rounds to the nearest.
#include "io/from_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "io/to_float.h"

namespace headwise {
namespace {

std::vector<uint16_t> halves(Dtype dtype, const std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  from_float(dtype, values, std::as_writable_bytes(std::span(bits)));
  return bits;
}

void expect_round_trip(Dtype dtype) {
  std::vector<uint16_t> bits(1 << 16);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  std::vector<float> values(bits.size());
  to_float(dtype, std::as_bytes(std::span(bits)), values);
  const std::vector<uint16_t> back = halves(dtype, values);
  for (size_t i = 0; i < bits.size(); ++i) {
    if (std::isnan(values[i])) continue;
    ASSERT_EQ(back[i], bits[i]) << i;
  }
}

TEST(FromFloat, KeepsEveryFloat16) { expect_round_trip(Dtype::kF16); }
TEST(FromFloat, KeepsEveryBfloat16) { expect_round_trip(Dtype::kBF16); }

TEST(FromFloat, RoundsToTheNearestAndToEvenBetween) {
  EXPECT_EQ(halves(Dtype::kF16, {1 + 0x1p-11f, 1 + 0x1.8p-10f, 1 + 0x1.002p-11f, 65519.f, 65520.f,
                                 -1e9f, 0x1p-25f, 0x1.8p-24f, -0.f}),
            (std::vector<uint16_t>{0x3c00, 0x3c02, 0x3c01, 0x7bff, 0x7c00, 0xfc00, 0, 2, 0x8000}));
  EXPECT_EQ(halves(Dtype::kBF16, {1 + 0x1p-8f, 1 + 0x1.8p-7f, 1 + 0x1.02p-8f, 3.4e38f}),
            (std::vector<uint16_t>{0x3f80, 0x3f82, 0x3f81, 0x7f80}));
}

TEST(FromFloat, KeepsNotANumber) {
  EXPECT_EQ(halves(Dtype::kF16, {NAN}).front() & 0x7fff, 0x7e00);
  EXPECT_EQ(halves(Dtype::kBF16, {NAN}).front() & 0x7fc0, 0x7fc0);
}

}  // namespace
}  // namespace headwise
