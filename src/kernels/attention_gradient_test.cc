// The reference's backward against central differences of its forward, in double, for every input.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/attention_ref.h"
#include "kernels/attention_testing.h"

namespace headwise::tests {
namespace {

// Inputs are multiples of kGrid, so that x ± kStep and x ± 2 kStep are exact in float and the
// differences are those of a function of doubles.
constexpr float kGrid = 0x1p-6f;
constexpr float kStep = 0x1p-11f;

double loss(const Problem& problem) {
  const Attention a = problem.attention();
  Array<double, 3> out({a.q.extent(0), a.q.extent(1), a.v.extent(2)});
  attention_forward_ref(a, out.view(), {});
  double sum = 0;
  for (int64_t t = 0; t < a.q.extent(0); ++t) {
    for (int64_t h = 0; h < a.q.extent(1); ++h) {
      for (int64_t d = 0; d < a.v.extent(2); ++d) {
        if (out.view()(t, h, d) != 0) sum += out.view()(t, h, d) * problem.dout.view()(t, h, d);
      }
    }
  }
  return sum;
}

/// Five-point formula: the error is f⁽⁵⁾ h⁴ / 30 ≈ 2e-15 f⁽⁵⁾, and 1e-16 / h ≈ 2e-13 times the loss
/// from rounding.
double difference(const Problem& problem, float& x) {
  const float middle = x;
  const auto at = [&](float steps) {
    x = middle + steps * kStep;
    return loss(problem);
  };
  const double slope =
      (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * static_cast<double>(kStep));
  x = middle;
  return slope;
}

template <int R>
void expect_slopes(const Problem& problem, Array<float, R>& input, const Array<double, R>& gradient,
                   const char* name) {
  const std::vector<double> expected = gradient.values();
  ASSERT_EQ(input.data().size(), expected.size()) << "the input is packed";
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(input.data()[i])) {
      EXPECT_EQ(expected[i], 0) << name << " of padding";
      continue;
    }
    ASSERT_NEAR(difference(problem, input.data()[i]), expected[i], 1e-9)
        << name << '[' << i << "] " << problem.spec.text();
  }
}

void expect_gradients(Spec spec) {
  spec.step = kGrid;
  Problem problem(spec);
  const Answers<double> answers =
      solve_ref(problem.attention(), problem.dout.view(), {.at_zero_gates = true});
  expect_slopes(problem, problem.q, answers.dq, "q");
  expect_slopes(problem, problem.k, answers.dk, "k");
  expect_slopes(problem, problem.v, answers.dv, "v");
  expect_slopes(problem, problem.gates, answers.dgates, "gates");
  expect_slopes(problem, problem.table, answers.dtable, "table");
  expect_slopes(problem, problem.bias, answers.dbias, "bias");
  expect_slopes(problem, problem.sinks, answers.dsinks, "sinks");
}

TEST(AttentionGradient, Plain) { expect_gradients({.sequences = {{4, 4}, {1, 1}, {0, 0}}}); }

TEST(AttentionGradient, CausalWindowAndOtherWidths) {
  expect_gradients({.sequences = {{3, 7}, {5, 2}},
                    .width = 3,
                    .value_width = 5,
                    .mask = {.causal = true, .left = 3},
                    .scale = 0.5f});
}

TEST(AttentionGradient, SoftcapThenBias) {
  expect_gradients({.sequences = {{6, 6}},
                    .width = 4,
                    .scale = 1.0f,
                    .softcap = 1.5f,
                    .alibi = true,
                    .table = true});
}

TEST(AttentionGradient, BiasAndSinks) {
  expect_gradients({.sequences = {{3, 4}, {4, 2}},
                    .heads = 4,
                    .kv_heads = 2,
                    .width = 3,
                    .value_width = 2,
                    .mask = {.causal = true},
                    .softcap = 1.5f,
                    .dropout = 0.3f,
                    .padding = true,
                    .bias = true,
                    .sinks = true,
                    .gates = GateScope::kRow,
                    .some_gates_zero = true,
                    .seed = 4});
}

TEST(AttentionGradient, Dropout) {
  expect_gradients({.sequences = {{5, 6}, {4, 4}},
                    .width = 4,
                    .dropout = 0.4f,
                    .head_dropout = 0.5f,
                    .gates = GateScope::kHead,
                    .seed = 5});
}

TEST(AttentionGradient, GatesOfRowsUnderDropoutOfHeads) {
  expect_gradients({.sequences = {{5, 5}, {4, 6}, {3, 3}},
                    .heads = 4,
                    .kv_heads = 2,
                    .width = 3,
                    .value_width = 3,
                    .dropout = 0.3f,
                    .head_dropout = 0.4f,
                    .gates = GateScope::kRow,
                    .some_gates_zero = true,
                    .seed = 6});
}

TEST(AttentionGradient, GroupedHeads) {
  expect_gradients({.sequences = {{4, 5}},
                    .heads = 6,
                    .kv_heads = 3,
                    .width = 4,
                    .value_width = 3,
                    .kv_head = {0, 0, 0, 1, 2, 2},
                    .table = true});
}

TEST(AttentionGradient, GatesOfEveryScope) {
  for (const auto scope : {GateScope::kHead, GateScope::kSequence, GateScope::kRow}) {
    for (const bool zeros : {false, true}) {
      expect_gradients({.sequences = {{3, 3}, {4, 4}},
                        .heads = 4,
                        .width = 3,
                        .value_width = 3,
                        .gates = scope,
                        .some_gates_zero = zeros});
    }
  }
}

TEST(AttentionGradient, PaddingAndPositions) {
  expect_gradients({.sequences = {{5, 6}, {4, 4}, {3, 3}},
                    .width = 3,
                    .mask = {.causal = true},
                    .table = true,
                    .padding = true,
                    .positions = true,
                    .seed = 3});
}

TEST(AttentionGradient, EverythingAtOnce) {
  expect_gradients({.sequences = {{4, 6}, {5, 5}},
                    .heads = 4,
                    .kv_heads = 2,
                    .width = 3,
                    .value_width = 2,
                    .mask = {.left = 3, .right = 2},
                    .softcap = 2.0f,
                    .dropout = 0.3f,
                    .head_dropout = 0.25f,
                    .alibi = true,
                    .table = true,
                    .padding = true,
                    .gates = GateScope::kSequence,
                    .seed = 11});
}

TEST(AttentionGradient, ZeroGatesHaveNoneUnlessAsked) {
  const Problem problem({.sequences = {{3, 3}}, .gates = GateScope::kRow, .some_gates_zero = true});
  const Answers<double> answers = solve_ref(problem.attention(), problem.dout.view());
  int zeros = 0;
  for (int64_t t = 0; t < 3; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      const bool zero = problem.gates.view()(t, h) == 0;
      zeros += zero;
      EXPECT_EQ(answers.dgates.view()(t, h) == 0, zero);
    }
  }
  EXPECT_GT(zeros, 0);
}

}  // namespace
}  // namespace headwise::tests
