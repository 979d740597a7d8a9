// Norms against their definitions in double, on every SIMD target.
#include "headwise/kernels/norm.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/op_testing.h"

namespace headwise {
namespace {

class Norm : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Norm, testing::ValuesIn(simd_targets()), target_name);

constexpr float kEpsilon = 1e-5f;

View<const float, 1> row_of(const Matrix& matrix) {
  return {matrix.view.data(), {matrix.view.extent(1)}};
}

/// Sums in float are chains of at most 32 terms, then 4 vectors and at most 16 lanes: 40 additions,
/// each off by half an ulp of a sum of |terms|. So the mean of what is left after the first mean is
/// good to 20 ulp of a standard deviation, the variance to 22 ulp, its root to 11, and the way out
/// adds 5 roundings.
double allowed(double normalised, double weight, double result) {
  return kUlp * (std::abs(weight) * (20 + 16 * std::abs(normalised)) + std::abs(result));
}

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments(const Matrix& x, int64_t r) {
  const auto n = static_cast<double>(x.view.extent(1));
  Moments result;
  for (int64_t c = 0; c < x.view.extent(1); ++c) result.mean += x.view(r, c) / n;
  for (int64_t c = 0; c < x.view.extent(1); ++c) {
    result.variance += std::pow(x.view(r, c) - result.mean, 2) / n;
  }
  return result;
}

void expect_layer_norm(const Matrix& x, const Matrix& weight, const Matrix* bias,
                       const Matrix& got) {
  for (int64_t r = 0; r < x.view.extent(0); ++r) {
    const Moments m = moments(x, r);
    for (int64_t c = 0; c < x.view.extent(1); ++c) {
      const double normalised = (x.view(r, c) - m.mean) / std::sqrt(m.variance + kEpsilon);
      const double w = weight.view(0, c);
      const double expected = normalised * w + (bias == nullptr ? 0 : bias->view(0, c));
      ASSERT_NEAR(got.view(r, c), expected, allowed(normalised, w, expected))
          << fmt::format("{} columns at {}, {}", x.view.extent(1), r, c);
    }
  }
}

constexpr std::pair<int, int> kNormSizes[] = {{0, 5},  {3, 0},   {2, 1},    {3, 7},    {5, 64},
                                              {4, 99}, {9, 768}, {2, 4099}, {70, 1000}};

TEST_P(Norm, LayerNormMatchesTheDefinition) {
  for (const auto& [rows, columns] : kNormSizes) {
    const Matrix x(rows, columns, 1), weight(1, columns, 2), bias(1, columns, 3);
    Matrix out(rows, columns, 4, 1), without_bias(rows, columns, 4, 1);
    layer_norm(x.view, row_of(weight), row_of(bias), kEpsilon, out.view);
    layer_norm(x.view, row_of(weight), {}, kEpsilon, without_bias.view);
    expect_layer_norm(x, weight, &bias, out);
    expect_layer_norm(x, weight, nullptr, without_bias);
    EXPECT_TRUE(out.gaps_untouched());
  }
}

TEST_P(Norm, LayerNormByHand) {
  const float x[] = {1, 2, 3, 6}, weight[] = {1, 1, 2, 2}, bias[] = {0, 10, 0, 0};
  float out[4];
  layer_norm({x, {1, 4}}, {weight, {4}}, {bias, {4}}, 0.5f, {out, {1, 4}});  // mean 3, variance 3.5
  EXPECT_THAT(out, testing::ElementsAre(testing::FloatEq(-1), testing::FloatEq(9.5f), 0, 3));
}

TEST_P(Norm, LayerNormKeepsItsPrecisionFarFromZero) {
  for (const float offset : {1e3f, -1e5f}) {
    Matrix x(3, 768, 1);
    const Matrix weight(1, 768, 2);
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 768; ++c) x.view(r, c) += offset;
    }
    Matrix out(3, 768, 3);
    layer_norm(x.view, row_of(weight), {}, kEpsilon, out.view);
    expect_layer_norm(x, weight, nullptr, out);
  }
}

TEST_P(Norm, LayerNormOfEqualNumbersIsTheBias) {
  const std::vector<float> x(77, 12345.678f), ones(77, 1.0f), bias(77, 0.25f);
  std::vector<float> out(77);
  layer_norm({x.data(), {1, 77}}, {ones.data(), {77}}, {bias.data(), {77}}, kEpsilon,
             {out.data(), {1, 77}});
  EXPECT_EQ(out, bias);
}

void expect_rms_norm(View<const float, 2> x, const Matrix& weight, View<const float, 2> got) {
  for (int64_t r = 0; r < x.extent(0); ++r) {
    double square = 0;
    for (int64_t c = 0; c < x.extent(1); ++c) {
      square += double{x(r, c)} * x(r, c) / static_cast<double>(x.extent(1));
    }
    for (int64_t c = 0; c < x.extent(1); ++c) {
      const double normalised = x(r, c) / std::sqrt(square + kEpsilon);
      const double expected = normalised * weight.view(0, c);
      ASSERT_NEAR(got(r, c), expected, 16 * kUlp * std::abs(expected))
          << fmt::format("{} columns at {}, {}", x.extent(1), r, c);
    }
  }
}

TEST_P(Norm, RmsNormMatchesTheDefinition) {
  for (const auto& [rows, columns] : kNormSizes) {
    const Matrix x(rows, columns, 1), weight(1, columns, 2);
    Matrix out(rows, columns, 4, 1);
    rms_norm(x.view, row_of(weight), kEpsilon, out.view);
    expect_rms_norm(x.view, weight, out.view);
    EXPECT_TRUE(out.gaps_untouched());
  }
}

TEST_P(Norm, RmsNormOfHeadsNormalisesEachHeadOfAFusedProjection) {
  const int64_t rows = 33, heads = 3, width = 20;
  const Matrix weight(1, width, 2), before(rows, 3 * heads * width, 1);
  Matrix after(before);
  const auto keys = [&](const Matrix& fused) {  // queries, keys and values lie side by side
    return View<float, 3>(&fused.view(0, heads * width), {rows, heads, width},
                          {fused.view.stride(0), width, 1});
  };
  rms_norm(keys(after), row_of(weight), kEpsilon);
  for (int64_t c = 0; c < before.view.extent(1); c += width) {
    const auto part = [&](const Matrix& fused) {
      return View<const float, 2>(&fused.view(0, c), {rows, width}, {fused.view.stride(0), 1});
    };
    if (c >= heads * width && c < 2 * heads * width) {
      expect_rms_norm(part(before), weight, part(after));
      continue;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = 0; i < width; ++i) ASSERT_EQ(part(after)(r, i), part(before)(r, i));
    }
  }
  EXPECT_TRUE(after.gaps_untouched());
}

TEST_P(Norm, InPlaceAndWithAnyNumberOfThreadsTheBitsAreTheSame) {
  const Matrix x(200, 500, 1), weight(1, 500, 2), bias(1, 500, 3);
  Matrix layer(x), rms(x);
  set_threads(1);
  layer_norm(x.view, row_of(weight), row_of(bias), kEpsilon, layer.view);
  rms_norm(x.view, row_of(weight), kEpsilon, rms.view);
  for (const int count : {2, 3, 7}) {
    set_threads(count);
    Matrix layer_again(x), rms_again(x);
    layer_norm(layer_again.view, row_of(weight), row_of(bias), kEpsilon, layer_again.view);
    rms_norm(rms_again.view, row_of(weight), kEpsilon, rms_again.view);
    EXPECT_TRUE(layer.same_bits(layer_again)) << count;
    EXPECT_TRUE(rms.same_bits(rms_again)) << count;
  }
}

TEST_P(Norm, NanAndInfinitySpoilTheirRowOnly) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Matrix x(3, 37, 1);
    const Matrix weight(1, 37, 2);
    x.view(1, 36) = bad;
    Matrix out(3, 37, 3);
    layer_norm(x.view, row_of(weight), {}, kEpsilon, out.view);
    for (int64_t c = 0; c < 37; ++c) {
      EXPECT_TRUE(std::isfinite(out.view(0, c)));
      EXPECT_TRUE(std::isnan(out.view(1, c)));
      EXPECT_TRUE(std::isfinite(out.view(2, c)));
    }
  }
}

TEST(NormErrors, BadShapesSayWhatWasExpected) {
  const Matrix x(3, 4, 1), weight(1, 4, 2), wrong(1, 5, 3);
  Matrix out(3, 4, 5);
  expect_error("layer_norm: the shape",
               [&] { layer_norm(x.view, row_of(wrong), {}, kEpsilon, out.view); });
  expect_error("layer_norm: the shape",
               [&] { layer_norm(x.view, row_of(weight), row_of(wrong), kEpsilon, out.view); });
  expect_error("layer_norm: the shape",
               [&] { layer_norm(weight.view, row_of(weight), {}, kEpsilon, out.view); });
  expect_error("rms_norm: the shape", [&] { rms_norm(x.view, row_of(wrong), kEpsilon, out.view); });
  expect_error("rms_norm: the shape", [&] { rms_norm(x.view, {}, kEpsilon, out.view); });
  expect_error("rms_norm: the columns", [&] {
    rms_norm(View<float, 3>(out.view.data(), {2, 1, 2}, {1, 1, 2}), {weight.view.data(), {2}},
             kEpsilon);
  });
}

}  // namespace
}  // namespace headwise
