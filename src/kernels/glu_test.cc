// Gated activations and their gradients against their definition, on every SIMD target.
#include "headwise/kernels/glu.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "kernels/gemm_ref.h"
#include "kernels/op_testing.h"

namespace headwise {
namespace {

class Glu : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Glu, testing::ValuesIn(simd_targets()), target_name);

constexpr Activation kGluActivations[] = {Activation::none, Activation::relu,
                                          Activation::gelu, Activation::gelu_tanh,
                                          Activation::silu, Activation::tanh};

TEST_P(Glu, MatchesTheDefinition) {
  for (const auto& [rows, columns] :
       {std::pair{0, 5}, {3, 0}, {1, 1}, {2, 7}, {5, 64}, {40, 1100}}) {
    for (const Activation activation : kGluActivations) {
      const Matrix gates(rows, columns, 1), ups(rows, columns, 2, 1);
      Matrix out(rows, columns, 3, 5);
      glu(gates.view, ups.view, activation, out.view);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          const double expected = activate_ref(activation, gates.view(r, c)) * ups.view(r, c);
          // An activation of x is good to 8 ulp of x; the product rounds once more.
          const double allowed = 9 * 0x1p-23 * std::abs(gates.view(r, c) * ups.view(r, c));
          ASSERT_NEAR(out.view(r, c), expected, allowed)
              << fmt::format("{} x {} activation {}", rows, columns, static_cast<int>(activation));
        }
      }
      EXPECT_TRUE(out.gaps_untouched());
    }
  }
}

TEST_P(Glu, GradientsAreThoseOfFiniteDifferences) {
  for (const auto& [rows, columns] : {std::pair{0, 5}, {3, 0}, {1, 1}, {2, 7}, {40, 1100}}) {
    for (const Activation activation : kGluActivations) {
      const Matrix gates(rows, columns, 1), ups(rows, columns, 2, 1), dout(rows, columns, 3, 2);
      Matrix dgate(rows, columns, 4), dup(rows, columns, 5);
      glu_backward(gates.view, ups.view, activation, dout.view, dgate.view, dup.view);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          const double x = gates.view(r, c), up = ups.view(r, c), dy = dout.view(r, c), h = 1e-5;
          if (activation == Activation::relu && std::abs(x) < h) continue;
          const double slope =
              (activate_ref(activation, x + h) - activate_ref(activation, x - h)) / (2 * h);
          // A slope is good to 8 ulp, as in activation_test.cc, and the products round twice.
          ASSERT_NEAR(dgate.view(r, c), dy * up * slope, 10 * 0x1p-23 * std::abs(dy * up));
          ASSERT_NEAR(dup.view(r, c), dy * activate_ref(activation, x),
                      9 * 0x1p-23 * std::abs(dy * x));
        }
      }
      EXPECT_TRUE(dgate.gaps_untouched());
      EXPECT_TRUE(dup.gaps_untouched());
    }
  }
}

TEST_P(Glu, GradientsMayOverwriteTheirInputsAndThreadsChangeNoBit) {
  const Matrix gates(70, 1000, 1), ups(70, 1000, 2), dout(70, 1000, 3);
  Matrix dgate(70, 1000, 4), dup(70, 1000, 5);
  set_threads(1);
  glu_backward(gates.view, ups.view, Activation::silu, dout.view, dgate.view, dup.view);
  for (const int count : {2, 3, 7}) {
    set_threads(count);
    Matrix over_gate(gates), over_up(ups), over_dout(dout), apart(70, 1000, 6);
    glu_backward(over_gate.view, over_up.view, Activation::silu, dout.view, over_gate.view,
                 over_up.view);
    glu_backward(gates.view, ups.view, Activation::silu, over_dout.view, over_dout.view,
                 apart.view);
    EXPECT_TRUE(dgate.same_bits(over_gate)) << count;
    EXPECT_TRUE(dup.same_bits(over_up)) << count;
    EXPECT_TRUE(dgate.same_bits(over_dout)) << count;
  }
}

TEST_P(Glu, MayOverwriteEitherInputAndThreadsChangeNoBit) {
  const Matrix gates(70, 1000, 1), ups(70, 1000, 2);
  Matrix apart(70, 1000, 3), over_gate(gates), over_up(ups);
  set_threads(1);
  glu(gates.view, ups.view, Activation::silu, apart.view);
  set_threads(3);
  glu(over_gate.view, ups.view, Activation::silu, over_gate.view);
  glu(gates.view, over_up.view, Activation::silu, over_up.view);
  EXPECT_TRUE(apart.same_bits(over_gate));
  EXPECT_TRUE(apart.same_bits(over_up));
}

TEST(GatedErrors, BadShapesSayWhatWasExpected) {
  const Matrix a(3, 4, 1), wrong(4, 3, 2);
  Matrix out(3, 4, 3);
  expect_error("glu: the shape", [&] { glu(a.view, wrong.view, Activation::silu, out.view); });
  expect_error("glu: the shape", [&] { glu(wrong.view, wrong.view, Activation::silu, out.view); });
  expect_error("glu: the columns",
               [&] { glu(a.view, transposed(wrong.view), Activation::silu, out.view); });
  expect_error("glu_backward: the shape", [&] {
    glu_backward(a.view, a.view, Activation::silu, wrong.view, out.view, out.view);
  });
}

}  // namespace
}  // namespace headwise
