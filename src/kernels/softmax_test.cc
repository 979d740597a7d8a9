// Log-sum-exp, softmax and argmax against their definitions in double, on every SIMD target.
#include "headwise/kernels/softmax.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/op_testing.h"

namespace headwise {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class Softmax : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Softmax, testing::ValuesIn(simd_targets()), target_name);

constexpr std::pair<int, int> kSoftmaxSizes[] = {{0, 5},  {2, 1},    {3, 7},     {5, 64},
                                                 {4, 99}, {2, 4099}, {3, 32000}, {40, 1500}};

/// Logits between -range + shift and range + shift.
Matrix logits(int64_t rows, int64_t columns, float range, float shift) {
  Matrix x(rows, columns, 1);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) x.view(r, c) = range * x.view(r, c) + shift;
  }
  return x;
}

double log_sum_exp_ref(const Matrix& x, int64_t r) {
  double most = -kInf, sum = 0;
  for (int64_t c = 0; c < x.view.extent(1); ++c) most = std::max<double>(most, x.view(r, c));
  for (int64_t c = 0; c < x.view.extent(1); ++c) sum += std::exp(x.view(r, c) - most);
  return most + std::log(sum);
}

/// Each exponent is off by half an ulp of at most 2 * range, its exp by 1, and a sum in float is of
/// at most 40 terms one after another.
double relative(float range) { return kUlp * (range + 1 + 20); }

TEST_P(Softmax, LogSumExpMatchesTheDefinition) {
  for (const auto& [rows, columns] : kSoftmaxSizes) {
    for (const auto& [range, shift] : {std::pair{3.0f, 0.0f}, {40.0f, 0.0f}, {5.0f, 1000.0f}}) {
      const Matrix x = logits(rows, columns, range, shift);
      std::vector<float> out(rows);
      log_sum_exp(x.view, out);
      for (int64_t r = 0; r < rows; ++r) {
        const double expected = log_sum_exp_ref(x, r);
        ASSERT_NEAR(out[r], expected, relative(range) + kUlp / 2 * std::abs(expected))
            << fmt::format("{} x {} range {}", rows, columns, range);
      }
    }
  }
}

TEST_P(Softmax, MatchesTheDefinition) {
  for (const auto& [rows, columns] : kSoftmaxSizes) {
    for (const float range : {3.0f, 40.0f}) {
      const Matrix x = logits(rows, columns, range, 7);
      Matrix p(x);
      softmax(p.view);
      EXPECT_TRUE(p.gaps_untouched());
      for (int64_t r = 0; r < rows; ++r) {
        const double lse = log_sum_exp_ref(x, r);
        for (int64_t c = 0; c < columns; ++c) {
          const double expected = std::exp(x.view(r, c) - lse);
          ASSERT_NEAR(p.view(r, c), expected, 2 * relative(range) * expected)
              << fmt::format("{} x {} range {}", rows, columns, range);
        }
      }
    }
  }
}

TEST_P(Softmax, ByHand) {
  const float x[] = {0, std::log(3.0f)};
  float p[] = {0, std::log(3.0f)};
  float lse = 0;
  int32_t largest = 0;
  log_sum_exp({x, {1, 2}}, {&lse, 1});
  softmax({p, {1, 2}});
  argmax({x, {1, 2}}, {&largest, 1});
  EXPECT_FLOAT_EQ(lse, std::log(4.0f));
  EXPECT_FLOAT_EQ(p[0], 0.25f);
  EXPECT_FLOAT_EQ(p[1], 0.75f);
  EXPECT_EQ(largest, 1);
}

TEST_P(Softmax, WhatIsNotFiniteIsWhatTheFormulaSays) {
  for (const int64_t columns : {3, 41}) {
    const auto row = [&](float fill, float last) {
      std::vector<float> x(columns, fill);
      x.back() = last;
      return x;
    };
    const auto lse_of = [&](const std::vector<float>& x) {
      float lse = 0;
      log_sum_exp({x.data(), {1, columns}}, {&lse, 1});
      return lse;
    };
    const auto softmax_of = [&](std::vector<float> x) {
      softmax({x.data(), {1, columns}});
      return x;
    };
    EXPECT_EQ(lse_of(row(-kInf, -kInf)), -kInf);
    EXPECT_EQ(lse_of(row(-kInf, 5)), 5);
    EXPECT_EQ(lse_of(row(1, kInf)), kInf);
    EXPECT_TRUE(std::isnan(lse_of(row(1, kNaN))));
    EXPECT_TRUE(std::isnan(lse_of(row(kInf, kNaN))));
    EXPECT_EQ(softmax_of(row(-kInf, 5)), row(0, 1));
    EXPECT_EQ(softmax_of(row(-3e38f, 3e38f)), row(0, 1));
    for (const auto& bad : {row(-kInf, -kInf), row(1, kInf), row(1, kNaN)}) {
      for (const float p : softmax_of(bad)) EXPECT_TRUE(std::isnan(p));
    }
  }
  float lse = 0;
  log_sum_exp({nullptr, {1, 0}}, {&lse, 1});
  EXPECT_EQ(lse, -kInf);
}

TEST_P(Softmax, ArgmaxNamesTheFirstOfTheLargest) {
  for (const int64_t columns : {1, 7, 16, 39, 1000}) {
    for (int64_t at = 0; at < columns; at += std::max<int64_t>(1, columns / 13)) {
      std::vector<float> x(columns, -1.5f);
      int32_t largest = -1;
      const auto found = [&] {
        argmax({x.data(), {1, columns}}, {&largest, 1});
        return largest;
      };
      EXPECT_EQ(found(), 0);
      x.back() = -1;
      x[at] = -1;
      EXPECT_EQ(found(), at);
      x.back() = kInf;
      EXPECT_EQ(found(), columns - 1);
      x[at] = kNaN;
      EXPECT_EQ(found(), at);
    }
  }
  const std::vector<float> nothing(40, -kInf);
  int32_t largest = -1;
  argmax({nothing.data(), {1, 40}}, {&largest, 1});
  EXPECT_EQ(largest, 0);
}

TEST_P(Softmax, ThreadsChangeNoBit) {
  const Matrix x = logits(60, 3000, 10, 0);
  Matrix one(x), several(x);
  std::vector<float> lse_one(60), lse_several(60);
  std::vector<int32_t> largest_one(60), largest_several(60);
  set_threads(1);
  softmax(one.view);
  log_sum_exp(x.view, lse_one);
  argmax(x.view, largest_one);
  set_threads(3);
  softmax(several.view);
  log_sum_exp(x.view, lse_several);
  argmax(x.view, largest_several);
  EXPECT_TRUE(one.same_bits(several));
  EXPECT_EQ(lse_one, lse_several);
  EXPECT_EQ(largest_one, largest_several);
}

TEST(SoftmaxErrors, BadShapesSayWhatWasExpected) {
  const Matrix x(3, 4, 1);
  std::vector<float> out(2);
  std::vector<int32_t> largest(2);
  expect_error("log_sum_exp: the shape", [&] { log_sum_exp(x.view, out); });
  expect_error("argmax: the shape", [&] { argmax(x.view, largest); });
  expect_error("argmax: the row", [&] { argmax({nullptr, {2, 0}}, largest); });
  expect_error("softmax: the columns", [&] { softmax(transposed(x.view)); });
}

}  // namespace
}  // namespace headwise
