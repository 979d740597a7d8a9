// Sizes, buffers, views, random numbers and errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "core/shuffle.h"
#include "headwise/core/buffer.h"
#include "headwise/core/error.h"
#include "headwise/core/grouped.h"
#include "headwise/core/random.h"
#include "headwise/core/shape.h"
#include "headwise/core/view.h"

namespace headwise {
namespace {

TEST(Error, SaysWhatWhereGotExpectedHintAndLeavesTheEmptyOut) {
  const Error error(
      {.what = "config: no heads", .where = "config.json", .got = "0", .hint = "set it"});
  EXPECT_STREQ(error.what(), "config: no heads\n  where: config.json\n  got: 0\n  hint: set it");
  EXPECT_EQ(error.detail().got, "0");
}

TEST(Shape, CountsAndRefusesOverflowAndNegatives) {
  EXPECT_EQ(element_count(std::vector<int64_t>{2, 3, 4}), 24);
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count(std::vector<int64_t>{1LL << 40, 0}), 0);
  EXPECT_EQ(to_string(std::vector<int64_t>{2, 8, 64}), "[2, 8, 64]");
  EXPECT_THROW(element_count(std::vector<int64_t>{1LL << 32, 1LL << 32}), Error);
  EXPECT_THROW(element_count(std::vector<int64_t>{2, -1}), Error);
  EXPECT_THROW(byte_count(std::vector<int64_t>{1LL << 62}, sizeof(float)), Error);
  EXPECT_THROW(checked_add(INT64_MAX, 1), Error);
}

TEST(Buffer, IsAlignedMovableAndMayBeEmpty) {
  Buffer buffer = Buffer::zeros(5);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kAlignment, 0u);
  EXPECT_THAT(buffer.span(), testing::Each(0.0f));
  const Buffer large(700'001);  // over a large page, and no multiple of anything
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large.data()) % kAlignment, 0u);
  large[700'000] = 1;
  const Buffer moved = std::move(buffer);
  EXPECT_EQ(moved.size(), 5);
  EXPECT_EQ(Buffer(0).size(), 0);
  EXPECT_THROW(Buffer(-1), Error);
}

TEST(View, ReadsThroughStridesAndRows) {
  std::vector<float> data(24);
  std::iota(data.begin(), data.end(), 0.0f);
  const View<float, 3> all(data.data(), {2, 3, 4});
  EXPECT_EQ(all(1, 2, 3), 23);
  const View<const float, 2> transposed(data.data(), {4, 6}, {1, 4});
  EXPECT_EQ(transposed(3, 5), 23);
  EXPECT_EQ(all.rows(1, 2)(0, 0, 0), 12);
  const View<const float, 3> as_const = all;
  EXPECT_EQ(as_const(0, 1, 1), 5);
}

TEST(Random, MatchesTheKnownAnswersOfPhilox) {
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, ~0ull),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822ull),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, HasTheMomentsItPromises) {
  Random random(7, 1);
  constexpr int kDraws = 200000;
  double sum = 0, square = 0, uniform = 0;
  std::vector<int> counts(6);
  for (int i = 0; i < kDraws; ++i) {
    const double x = random.normal();
    sum += x;
    square += x * x;
    const float u = random.uniform();
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    uniform += u;
    ++counts[random.below(6)];
  }
  const double sigma = 1 / std::sqrt(kDraws);  // five standard errors everywhere
  EXPECT_NEAR(sum / kDraws, 0, 5 * sigma);
  EXPECT_NEAR(square / kDraws, 1, 5 * sigma * std::sqrt(2.0));
  EXPECT_NEAR(uniform / kDraws, 0.5, 5 * sigma / std::sqrt(12.0));
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 6.0, 5 * std::sqrt(kDraws * 5 / 36.0));
}

TEST(Shuffle, KeepsAllOrDrawsSomeOnceEach) {
  std::vector<int64_t> values(20);
  std::iota(values.begin(), values.end(), 0);
  std::vector<int64_t> order = values;
  Random random(3);
  permute(order, random);
  EXPECT_NE(order, values);
  EXPECT_THAT(order, testing::UnorderedElementsAreArray(values));
  EXPECT_THAT(draw(values, 99, random), testing::UnorderedElementsAreArray(values));
  const std::vector<int64_t> some = choose_below(7, 20, Random(3));
  EXPECT_EQ(some.size(), 7u);
  EXPECT_TRUE(std::ranges::is_sorted(some, std::less_equal()));
  EXPECT_THAT(some, testing::IsSubsetOf(values));
  // Each of three comes first about as often as the others: 1,000 times, within five deviations.
  std::vector<int> first(3);
  for (int i = 0; i < 3000; ++i) ++first[draw(std::vector{0, 1, 2}, 1, random).front()];
  for (const int count : first) EXPECT_NEAR(count, 1000, 5 * std::sqrt(3000 * 2. / 9));
}

TEST(Grouped, PutsACommaBeforeEveryThreeDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(grouped(22713216), "22,713,216");
  EXPECT_EQ(grouped(-999), "-999");
}

}  // namespace
}  // namespace headwise
