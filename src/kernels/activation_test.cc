// Activations and their slopes against the definitions in double, on every SIMD target.
#include "headwise/kernels/activation.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kernels/gemm_ref.h"
#include "kernels/op_testing.h"

namespace headwise {
namespace {

class Activations : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Activations, testing::ValuesIn(simd_targets()), target_name);

constexpr Activation kActivations[] = {Activation::none,      Activation::relu, Activation::gelu,
                                       Activation::gelu_tanh, Activation::silu, Activation::tanh};

/// By central differences: the definitions are in double, so this is good to 1e-9.
double slope(Activation activation, double x) {
  const double h = 1e-5;
  if (activation == Activation::relu) return x > 0 ? 1 : 0;
  return (activate_ref(activation, x + h) - activate_ref(activation, x - h)) / (2 * h);
}

void scale(Matrix& matrix, float factor) {
  for (int64_t r = 0; r < matrix.view.extent(0); ++r) {
    for (int64_t c = 0; c < matrix.view.extent(1); ++c) matrix.view(r, c) *= factor;
  }
}

TEST_P(Activations, MatchTheDefinitionsAndTheirSlopes) {
  for (const auto& [rows, columns] : {std::pair{0, 5}, {3, 0}, {1, 1}, {2, 7}, {40, 1100}}) {
    for (const Activation activation : kActivations) {
      Matrix x(rows, columns, 1);
      scale(x, 12);
      const Matrix dy(rows, columns, 2, 1);
      Matrix out(rows, columns, 3, 5), dx(rows, columns, 4, 2);
      activate(x.view, activation, out.view);
      activate_backward(x.view, activation, dy.view, dx.view);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          const double value = x.view(r, c);
          const auto where =
              fmt::format("activation {} of {}", static_cast<int>(activation), value);
          ASSERT_NEAR(out.view(r, c), activate_ref(activation, value), 8 * kUlp * std::abs(value))
              << where;
          // A slope is a sum of two terms of about 1 or less, each good to some 4 ulp.
          ASSERT_NEAR(dx.view(r, c), dy.view(r, c) * slope(activation, value),
                      8 * kUlp * std::abs(dy.view(r, c)))
              << where;
        }
      }
      EXPECT_TRUE(out.gaps_untouched());
      EXPECT_TRUE(dx.gaps_untouched());
    }
  }
}

TEST_P(Activations, SlopesFarFromZeroAreZeroOrOne) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const Activation activation :
       {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu}) {
    for (const float far : {100.0f, 1e15f, 3e38f, infinity}) {
      const float x[] = {far, -far}, dy[] = {1, 1};
      float dx[2];
      activate_backward({x, {1, 2}}, activation, {dy, {1, 2}}, {dx, {1, 2}});
      EXPECT_FLOAT_EQ(dx[0], 1) << far << " activation " << static_cast<int>(activation);
      EXPECT_NEAR(dx[1], 0, 0x1p-60) << far << " activation " << static_cast<int>(activation);
    }
  }
}

TEST_P(Activations, NanHasNoSlope) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), dy = 1;
  for (const Activation activation :
       {Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh}) {
    float dx = 0;
    activate_backward({&nan, {1, 1}}, activation, {&dy, {1, 1}}, {&dx, {1, 1}});
    EXPECT_TRUE(std::isnan(dx)) << static_cast<int>(activation);
  }
}

TEST_P(Activations, MayOverwriteAndThreadsChangeNoBit) {
  const Matrix x(70, 1000, 1), dy(70, 1000, 2);
  Matrix y(70, 1000, 3), dx(70, 1000, 4);
  set_threads(1);
  activate(x.view, Activation::gelu, y.view);
  activate_backward(x.view, Activation::gelu, dy.view, dx.view);
  for (const int count : {2, 3, 7}) {
    set_threads(count);
    Matrix y_again(x), over_dy(dy), over_x(x);
    activate(y_again.view, Activation::gelu, y_again.view);
    activate_backward(x.view, Activation::gelu, over_dy.view, over_dy.view);
    activate_backward(over_x.view, Activation::gelu, dy.view, over_x.view);
    EXPECT_TRUE(y.same_bits(y_again));
    EXPECT_TRUE(dx.same_bits(over_dy));
    EXPECT_TRUE(dx.same_bits(over_x));
  }
}

TEST(ActivationErrors, BadShapesSayWhatWasExpected) {
  const Matrix a(3, 4, 1), wrong(4, 3, 2);
  Matrix out(3, 4, 3);
  expect_error("activate: the shape", [&] { activate(wrong.view, Activation::relu, out.view); });
  expect_error("activate: the columns",
               [&] { activate(transposed(wrong.view), Activation::relu, out.view); });
  expect_error("activate_backward: the shape",
               [&] { activate_backward(a.view, Activation::relu, wrong.view, out.view); });
}

}  // namespace
}  // namespace headwise
