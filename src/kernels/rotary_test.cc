// Rotary position embedding against its definition in double, on every SIMD target.
#include "headwise/kernels/rotary.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "kernels/op_testing.h"

namespace headwise {
namespace {

class Rotary : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Rotary, testing::ValuesIn(simd_targets()), target_name);

std::vector<float> llama_frequencies(int64_t width) {
  std::vector<float> result;
  for (int64_t i = 0; i < width; i += 2) {
    result.push_back(std::pow(10000.f, -static_cast<float>(i) / static_cast<float>(width)));
  }
  return result;
}

View<float, 3> heads_of(const Matrix& x, int64_t heads) {
  const int64_t width = x.view.extent(1) / heads;
  return {x.view.data(), {x.view.extent(0), heads, width}, {x.view.stride(0), width, 1}};
}

std::vector<int64_t> scattered_positions(int64_t rows, int64_t limit) {
  std::vector<int64_t> result;
  for (int64_t t = 0; t < rows; ++t) result.push_back(t * 37 % limit);
  return result;
}

TEST_P(Rotary, MatchesTheDefinition) {
  struct Case {
    int64_t rows, heads, width, rotated;
    double factor;
  };
  for (const auto& [rows, heads, width, rotated, factor] :
       {Case{1, 1, 2, 2, 1}, Case{5, 3, 48, 48, 1}, Case{7, 2, 20, 6, 1}, Case{4, 2, 9, 0, 1},
        Case{0, 2, 8, 8, 1}, Case{4, 0, 8, 8, 1}, Case{300, 4, 64, 64, 1.25}}) {
    const auto frequencies = llama_frequencies(rotated);
    const RotaryTable table(1000, frequencies, factor);
    const auto positions = scattered_positions(rows, 1000);
    const Matrix before(rows, heads * width, 1);
    Matrix after(before);
    const View<float, 3> x =
        View<float, 3>(before.view.data(), {rows, heads, width}, {before.view.stride(0), width, 1});
    const View<float, 3> y =
        View<float, 3>(after.view.data(), {rows, heads, width}, {after.view.stride(0), width, 1});
    rotate(y, positions, table);
    EXPECT_TRUE(after.gaps_untouched());
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < rotated / 2; ++i) {
          const double angle = static_cast<float>(positions[t]) * frequencies[i];
          const double cosine = factor * std::cos(angle), sine = factor * std::sin(angle);
          const double a = x(t, h, i), b = x(t, h, i + rotated / 2);
          // Cosine, sine, both products and their sum are each rounded: 3 half ulp of each product.
          const double allowed = 1.5 * 0x1p-23 * factor * (std::abs(a) + std::abs(b));
          ASSERT_NEAR(y(t, h, i), a * cosine - b * sine, allowed) << t << ' ' << h << ' ' << i;
          ASSERT_NEAR(y(t, h, i + rotated / 2), b * cosine + a * sine, allowed);
        }
        for (int64_t i = rotated; i < width; ++i) ASSERT_EQ(y(t, h, i), x(t, h, i));
      }
    }
  }
}

TEST_P(Rotary, ByHandAQuarterTurn) {
  const float quarter[] = {M_PI / 2, 0};
  const RotaryTable table(2, quarter);
  float x[] = {1, 2, 3, 4};
  const int64_t position[] = {1};
  rotate({x, {1, 1, 4}}, position, table);
  EXPECT_THAT(x, testing::ElementsAre(testing::FloatEq(-3), 2, testing::FloatEq(1), 4));
}

TEST_P(Rotary, ProductsOfRotatedRowsDependOnTheDistanceOnly) {
  const int64_t width = 64;
  const RotaryTable table(600, llama_frequencies(width));
  const Matrix q(1, width, 1), k(1, width, 2);
  const auto product = [&](int64_t q_at, int64_t k_at) {
    const Matrix turned_q(q), turned_k(k);
    rotate(heads_of(turned_q, 1), std::array{q_at}, table);
    rotate(heads_of(turned_k, 1), std::array{k_at}, table);
    double sum = 0;
    for (int64_t c = 0; c < width; ++c) sum += double{turned_q.view(0, c)} * turned_k.view(0, c);
    return sum;
  };
  const double allowed = width * 4 * 0x1p-23;  // each of the factors, below √2, is off by 1.5 ulp
  EXPECT_NEAR(product(13, 3), product(510, 500), allowed);
  EXPECT_GT(std::abs(product(13, 3) - product(14, 3)), 100 * allowed);
}

TEST_P(Rotary, BackIsTheTransposeOfTheTurn) {
  // A turn is linear, so its gradient is its transpose: dy · rotate(x) = rotate_back(dy) · x.
  const int64_t rows = 30, heads = 3, width = 20;
  for (const double factor : {1.0, 1.25}) {
    const RotaryTable table(100, llama_frequencies(12), factor);
    const auto positions = scattered_positions(rows, 100);
    const Matrix x(rows, heads * width, 1), dy(rows, heads * width, 2);
    Matrix rotated(x), back(dy);
    rotate(heads_of(rotated, heads), positions, table);
    rotate_back(heads_of(back, heads), positions, table);
    EXPECT_TRUE(back.gaps_untouched());
    for (int64_t t = 0; t < rows; ++t) {
      double forward = 0, backward = 0;
      for (int64_t c = 0; c < heads * width; ++c) {
        forward += double{dy.view(t, c)} * rotated.view(t, c);
        backward += double{back.view(t, c)} * x.view(t, c);
      }
      // Either side has heads * width products of numbers that are off by 3 factor ulp at most.
      EXPECT_NEAR(forward, backward, 2 * 3 * 0x1p-23 * factor * static_cast<double>(heads * width));
    }
    if (factor != 1) continue;
    rotate_back(heads_of(rotated, heads), positions, table);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t c = 0; c < heads * width; ++c) {
        EXPECT_NEAR(rotated.view(t, c), x.view(t, c), 8 * 0x1p-23);
      }
    }
  }
}

TEST_P(Rotary, ThreadsChangeNoBit) {
  const RotaryTable table(512, llama_frequencies(64));
  const auto positions = scattered_positions(512, 512);
  const Matrix x(512, 4 * 64, 1);
  Matrix one(x), several(x);
  set_threads(1);
  rotate(heads_of(one, 4), positions, table);
  set_threads(3);
  rotate(heads_of(several, 4), positions, table);
  EXPECT_TRUE(one.same_bits(several));
}

TEST(RotaryErrors, WhatDoesNotFitIsNamedAndNothingChanges) {
  const RotaryTable table(8, llama_frequencies(4));
  const Matrix before(2, 6, 1);
  const Matrix x(before);
  const int64_t good[] = {0, 7}, low[] = {0, -1}, high[] = {0, 8};
  expect_error("rotate: the position", [&] { rotate(heads_of(x, 1), low, table); });
  expect_error("rotate: the position", [&] { rotate(heads_of(x, 1), high, table); });
  expect_error("rotate: the head is narrower", [&] { rotate(heads_of(x, 2), good, table); });
  expect_error("rotate: the shape",
               [&] { rotate(heads_of(x, 1), std::span(good).first(1), table); });
  expect_error("rotate_back: the position", [&] { rotate_back(heads_of(x, 1), high, table); });
  EXPECT_TRUE(x.same_bits(before));
}

}  // namespace
}  // namespace headwise
