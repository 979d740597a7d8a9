// Gradients of norms against finite differences of their definitions in double, on every SIMD
// target.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "headwise/kernels/norm.h"
#include "kernels/op_testing.h"

namespace headwise {
namespace {

class NormGradient : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, NormGradient, testing::ValuesIn(simd_targets()), target_name);

constexpr float kLargeEpsilon = 0.1f;  // keeps short rows from being nearly singular
constexpr double kDifference = 1e-4;   // central differences of the norms are then good to 1e-7

using Row = std::vector<double>;

struct Normalised {
  Row values;
  double scale = 0;
};

Normalised layer(const Row& x) {
  const auto n = static_cast<double>(x.size());
  double mean = 0, variance = 0;
  for (const double v : x) mean += v / n;
  for (const double v : x) variance += (v - mean) * (v - mean) / n;
  Normalised result{x, 1 / std::sqrt(variance + kLargeEpsilon)};
  for (double& v : result.values) v = (v - mean) * result.scale;
  return result;
}

Normalised rms(const Row& x) {
  double square = 0;
  for (const double v : x) square += v * v / static_cast<double>(x.size());
  Normalised result{x, 1 / std::sqrt(square + kLargeEpsilon)};
  for (double& v : result.values) v *= result.scale;
  return result;
}

/// Σ g · normalised(x), g being dy * weight: what dx is the gradient of.
template <class Norm>
double pulled(const Norm& norm, const Row& x, const Row& g) {
  const Row v = norm(x).values;
  double sum = 0;
  for (size_t c = 0; c < x.size(); ++c) sum += g[c] * v[c];
  return sum;
}

Row row_of(View<const float, 2> matrix, int64_t r) {
  return {&matrix(r, 0), &matrix(r, 0) + matrix.extent(1)};
}

View<float, 1> norm_vector(const Matrix& matrix) {
  return {matrix.view.data(), {matrix.view.extent(1)}};
}

/// A normalised number is good to 20 + 16 |v| ulp (norm_test.cc), and so are the means over a row
/// that are made of it.
template <class Norm>
void expect_dx(const Norm& norm, View<const float, 2> x, const Matrix& weight,
               View<const float, 2> dy, View<const float, 2> got) {
  for (int64_t r = 0; r < x.extent(0); ++r) {
    Row at = row_of(x, r), g = row_of(dy, r);
    for (size_t c = 0; c < g.size(); ++c) g[c] *= weight.view(0, static_cast<int64_t>(c));
    const Normalised row = norm(at);
    double pull = 0, stretch = 0;
    for (size_t c = 0; c < g.size(); ++c) {
      pull += std::abs(g[c]) / static_cast<double>(g.size());
      stretch += std::abs(g[c]) * (1 + std::abs(row.values[c])) / static_cast<double>(g.size());
    }
    for (size_t c = 0; c < at.size(); ++c) {
      const double old = at[c];
      at[c] = old + kDifference;
      const double above = pulled(norm, at, g);
      at[c] = old - kDifference;
      const double below = pulled(norm, at, g);
      at[c] = old;
      const double terms = std::abs(g[c]) + pull + (1 + std::abs(row.values[c])) * stretch;
      ASSERT_NEAR(got(r, static_cast<int64_t>(c)), (above - below) / (2 * kDifference),
                  1e-7 + 40 * kUlp * row.scale * terms)
          << fmt::format("{} columns at {}, {}", x.extent(1), r, c);
    }
  }
}

/// dweight and dbias, which were `before`. Sums over n rows round at most n times.
template <class Norm>
void expect_sums(const Norm& norm, View<const float, 2> x, View<const float, 2> dy,
                 const Matrix& before, const Matrix& dweight, const Matrix* dbias) {
  Row weight = row_of(before.view, 0), bias = weight;
  Row weight_terms(weight.size()), bias_terms(weight.size());
  for (int64_t r = 0; r < x.extent(0); ++r) {
    const Row v = norm(row_of(x, r)).values, g = row_of(dy, r);
    for (size_t c = 0; c < v.size(); ++c) {
      weight[c] += g[c] * v[c];
      bias[c] += g[c];
      weight_terms[c] += std::abs(g[c]) * (1 + std::abs(v[c]));
      bias_terms[c] += std::abs(g[c]);
    }
  }
  const double roundings = 20 + static_cast<double>(x.extent(0)) / 2;
  for (size_t i = 0; i < weight.size(); ++i) {
    const auto c = static_cast<int64_t>(i);
    ASSERT_NEAR(dweight.view(0, c), weight[i], kUlp * (1 + roundings * weight_terms[i])) << c;
    if (dbias == nullptr) continue;
    ASSERT_NEAR(dbias->view(0, c), bias[i], kUlp * (1 + roundings * bias_terms[i])) << c;
  }
}

constexpr std::pair<int, int> kGradientSizes[] = {{0, 5},   {3, 0},    {2, 1},  {3, 7},
                                                  {40, 64}, {900, 37}, {2, 768}};

TEST_P(NormGradient, LayerNorm) {
  for (const auto& [rows, columns] : kGradientSizes) {
    const Matrix x(rows, columns, 1), weight(1, columns, 2), dy(rows, columns, 3, 1);
    const Matrix before(1, columns, 4);
    Matrix dx(rows, columns, 5), dweight(before), dbias(before);
    layer_norm_backward(
        x.view, norm_vector(weight), kLargeEpsilon, dy.view,
        {.dx = dx.view, .dweight = norm_vector(dweight), .dbias = norm_vector(dbias)});
    expect_dx(layer, x.view, weight, dy.view, dx.view);
    expect_sums(layer, x.view, dy.view, before, dweight, &dbias);
    EXPECT_TRUE(dx.gaps_untouched());
  }
}

TEST_P(NormGradient, RmsNorm) {
  for (const auto& [rows, columns] : kGradientSizes) {
    const Matrix x(rows, columns, 1), weight(1, columns, 2), dy(rows, columns, 3, 1);
    const Matrix before(1, columns, 4);
    Matrix dx(rows, columns, 5), dweight(before);
    rms_norm_backward(x.view, norm_vector(weight), kLargeEpsilon, dy.view,
                      {.dx = dx.view, .dweight = norm_vector(dweight)});
    expect_dx(rms, x.view, weight, dy.view, dx.view);
    expect_sums(rms, x.view, dy.view, before, dweight, nullptr);
    EXPECT_TRUE(dx.gaps_untouched());
  }
}

TEST_P(NormGradient, RmsNormOfHeads) {
  const int64_t rows = 33, heads = 3, width = 20;
  const Matrix x(rows, heads * width, 1), dy(rows, heads * width, 3), weight(1, width, 2);
  const Matrix before(1, width, 4);
  Matrix dx(dy), dweight(before);
  const auto in_heads = [&](const Matrix& matrix) {
    return View<float, 3>(matrix.view.data(), {rows, heads, width},
                          {matrix.view.stride(0), width, 1});
  };
  rms_norm_backward(in_heads(x), norm_vector(weight), kLargeEpsilon, in_heads(dx),
                    norm_vector(dweight));
  EXPECT_TRUE(dx.gaps_untouched());
  // A head is a row of its own.
  Matrix x_rows(rows * heads, width, 0), dy_rows(x_rows), dx_rows(x_rows);
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < width; ++i) {
        x_rows.view(t * heads + h, i) = in_heads(x)(t, h, i);
        dy_rows.view(t * heads + h, i) = in_heads(dy)(t, h, i);
        dx_rows.view(t * heads + h, i) = in_heads(dx)(t, h, i);
      }
    }
  }
  expect_dx(rms, x_rows.view, weight, dy_rows.view, dx_rows.view);
  expect_sums(rms, x_rows.view, dy_rows.view, before, dweight, nullptr);
}

TEST_P(NormGradient, InPlaceAndWithAnyNumberOfThreadsTheBitsAreTheSame) {
  const Matrix x(500, 200, 1), weight(1, 200, 2), dy(500, 200, 3), zeros(1, 200, 4);
  const auto run = [&](auto backward, Matrix& dx, View<const float, 2> from, Matrix& sums) {
    backward(x.view, norm_vector(weight), kLargeEpsilon, from,
             NormGradients{.dx = dx.view, .dweight = norm_vector(sums)});
  };
  const auto rms_backward = [](auto... arguments) { rms_norm_backward(arguments...); };
  const auto layer_backward = [](auto... arguments) { layer_norm_backward(arguments...); };
  const auto compare = [&](auto backward) {
    set_threads(1);
    Matrix dx(dy), sums(zeros);
    run(backward, dx, dy.view, sums);
    for (const int count : {2, 3, 7}) {
      set_threads(count);
      Matrix dx_again(dy), sums_again(zeros);
      run(backward, dx_again, dx_again.view, sums_again);
      EXPECT_TRUE(dx.same_bits(dx_again)) << count;
      EXPECT_TRUE(sums.same_bits(sums_again)) << count;
    }
  };
  compare(layer_backward);
  compare(rms_backward);
}

TEST_P(NormGradient, IsAddedToDxIfAsked) {
  const Matrix x(9, 50, 1), weight(1, 50, 2), dy(9, 50, 3), before(9, 50, 4);
  Matrix alone(before), added(before);
  layer_norm_backward(x.view, norm_vector(weight), kLargeEpsilon, dy.view, {.dx = alone.view});
  layer_norm_backward(x.view, norm_vector(weight), kLargeEpsilon, dy.view,
                      {.dx = added.view, .add_to_dx = true});
  Matrix rms_alone(before), rms_added(before);
  rms_norm_backward(x.view, norm_vector(weight), kLargeEpsilon, dy.view, {.dx = rms_alone.view});
  rms_norm_backward(x.view, norm_vector(weight), kLargeEpsilon, dy.view,
                    {.dx = rms_added.view, .add_to_dx = true});
  for (int64_t r = 0; r < 9; ++r) {
    for (int64_t c = 0; c < 50; ++c) {
      const float old = before.view(r, c);
      EXPECT_NEAR(added.view(r, c), old + alone.view(r, c), 2 * kUlp * (1 + std::abs(old)));
      EXPECT_NEAR(rms_added.view(r, c), old + rms_alone.view(r, c), 2 * kUlp * (1 + std::abs(old)));
    }
  }
}

TEST(NormGradientErrors, BadShapesSayWhatWasExpected) {
  const Matrix x(3, 4, 1), weight(1, 4, 2), wrong(1, 5, 3);
  Matrix dx(3, 4, 5), sums(1, 4, 6);
  const auto backward = [&](View<const float, 2> dy, const NormGradients& gradients) {
    layer_norm_backward(x.view, norm_vector(weight), kLargeEpsilon, dy, gradients);
  };
  const std::string shape = "layer_norm_backward: the shape";
  expect_error(shape, [&] { backward(wrong.view, {.dx = dx.view}); });
  expect_error(shape, [&] { backward(x.view, {.dx = wrong.view}); });
  expect_error(shape, [&] { backward(x.view, {.dx = dx.view, .dweight = norm_vector(wrong)}); });
  expect_error(shape, [&] { backward(x.view, {.dx = dx.view, .dbias = norm_vector(wrong)}); });
  expect_error("rms_norm_backward: the shape", [&] {
    rms_norm_backward(x.view, norm_vector(weight), kLargeEpsilon, x.view,
                      {.dx = dx.view, .dbias = norm_vector(sums)});
  });
  expect_error("rms_norm_backward: the shape", [&] {
    rms_norm_backward(x.view, norm_vector(wrong), kLargeEpsilon, x.view, {.dx = dx.view});
  });
}

}  // namespace
}  // namespace headwise
