// The fast kernel against the reference, on every SIMD target, over a list of random problems.
#include <gtest/gtest.h>

#include <cmath>

#include "headwise/kernels/simd.h"
#include "kernels/attention_bounds.h"
#include "kernels/attention_ref.h"
#include "kernels/attention_testing.h"

namespace headwise::tests {
namespace {

// Every eighth problem is long: a number of groups prime to that spreads them.
constexpr int kProblems = 360;
constexpr int kGroups = 11;

template <int R>
void expect_close(const char* name, const Array<float, R>& fast, const Array<double, R>& reference,
                  const Array<double, R>& absolute, double bound) {
  const std::vector<float> got = fast.values();
  const std::vector<double> expected = reference.values(), scale = absolute.values();
  ASSERT_EQ(got.size(), expected.size());
  EXPECT_TRUE(fast.gaps_untouched()) << name;
  double worst = 0;
  size_t at = 0;
  int wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double ratio = std::abs(got[i] - expected[i]) / (bound * scale[i] + kFlushed);
    wrong += !(ratio <= 1);
    if (!(ratio <= worst)) worst = ratio, at = i;
    if (std::isnan(worst)) break;
  }
  EXPECT_EQ(wrong, 0) << name << ": " << worst << " of what rounding allows at " << at << " of "
                      << got.size() << ": " << got[at] << " for " << expected[at];
}

void expect_lse(const Array<float, 2>& fast, const Array<double, 2>& reference, double bound) {
  const std::vector<float> got = fast.values();
  const std::vector<double> expected = reference.values();
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(expected[i])) {
      ASSERT_EQ(got[i], expected[i]) << "lse " << i;
    } else {
      ASSERT_NEAR(got[i], expected[i], bound) << "lse " << i;
    }
  }
}

void expect_answers(const Answers<float>& fast, const Answers<double>& reference,
                    const Bounds& bounds) {
  expect_close("out", fast.out, reference.out, bounds.absolute.out, bounds.output);
  expect_lse(fast.lse, reference.lse, bounds.lse);
  expect_close("dq", fast.dq, reference.dq, bounds.absolute.dq, bounds.gradient);
  expect_close("dk", fast.dk, reference.dk, bounds.absolute.dk, bounds.gradient);
  expect_close("dv", fast.dv, reference.dv, bounds.absolute.dv, bounds.gradient);
  expect_close("dgates", fast.dgates, reference.dgates, bounds.absolute.dgates, bounds.gradient);
  expect_close("dtable", fast.dtable, reference.dtable, bounds.absolute.dtable, bounds.gradient);
  expect_close("dbias", fast.dbias, reference.dbias, bounds.absolute.dbias, bounds.gradient);
  expect_close("dsinks", fast.dsinks, reference.dsinks, bounds.absolute.dsinks, bounds.gradient);
}

class AttentionSweep : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { set_simd_target(""); }
};

TEST_P(AttentionSweep, EqualsTheReference) {
  for (int index = GetParam(); index < kProblems; index += kGroups) {
    const Problem problem(random_spec(index));
    const Attention attention = problem.attention();
    const bool at_zero_gates = index % 2 == 0;
    const Answers<double> reference =
        solve_ref(attention, problem.dout.view(), {.at_zero_gates = at_zero_gates});
    const Bounds bounds = attention_bounds(attention, problem.dout.view());
    for (const std::string& target : simd_targets()) {
      SCOPED_TRACE("problem " + std::to_string(index) + " on " + target + ": " +
                   problem.spec.text());
      set_simd_target(target);
      const Answers<float> fast =
          solve(attention, problem.dout.view(),
                {.at_zero_gates = at_zero_gates, .layout = problem.spec.layout});
      expect_answers(fast, reference, bounds);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Random, AttentionSweep, ::testing::Range(0, kGroups));

class AttentionTargets : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam()); }
  void TearDown() override { set_simd_target(""); }
};

TEST_P(AttentionTargets, EveryWidth) {
  for (int64_t width = 1; width <= 256; ++width) {
    const Problem problem({.sequences = {{3, 5}},
                           .heads = 2,
                           .kv_heads = 1,
                           .width = width,
                           .value_width = 257 - width,
                           .seed = static_cast<uint64_t>(width)});
    SCOPED_TRACE(problem.spec.text());
    const Attention attention = problem.attention();
    expect_answers(solve(attention, problem.dout.view()), solve_ref(attention, problem.dout.view()),
                   attention_bounds(attention, problem.dout.view()));
  }
}

/// A mask given as a bias: what it hides has no weight, and a row that it hides entirely attends
/// evenly.
TEST_P(AttentionTargets, ABiasOfMinusInfinityHidesKeys) {
  for (const float hidden : {-kInf, std::numeric_limits<float>::lowest()}) {
    Problem problem({.sequences = {{5, 300}}, .bias = true});
    for (int64_t j = 0; j < 300; ++j) {
      for (int64_t h = 0; h < 2; ++h) {
        problem.bias.view()(0, h, 1, j) = hidden;
        if (j % 3 != 0) problem.bias.view()(0, h, 2, j) = hidden;
      }
    }
    const Attention attention = problem.attention();
    const Answers<float> answers = solve(attention, problem.dout.view());
    const AttentionMaps maps = attention_maps(attention, std::vector<int64_t>{1, 2});
    for (int64_t j = 0; j < 300; ++j) {
      EXPECT_NEAR(maps.row(0, 0)[j], 1 / 300.0, 1e-6);
      EXPECT_EQ(maps.row(1, 0)[j] < kFlushed, j % 3 != 0);
      EXPECT_EQ(std::abs(answers.dbias.view()(0, 0, 2, j)) < kFlushed, j % 3 != 0);
    }
    for (int64_t d = 0; d < 8; ++d) {
      double mean = 0;
      for (int64_t j = 0; j < 300; ++j) mean += problem.v.view()(j, 0, d) / 300.0;
      EXPECT_NEAR(answers.out.view()(1, 0, d), mean, 1e-5);
    }
  }
}

/// From one that takes nothing to one that takes everything.
TEST_P(AttentionTargets, SinksOfEverySize) {
  Problem problem({.sequences = {{40, 300}, {9, 9}}, .heads = 4, .kv_heads = 2, .sinks = true});
  const std::vector<float> sizes = {-200, -3, 4, 200};
  for (int64_t h = 0; h < 4; ++h) problem.sinks.view()(h) = sizes[h];
  const Attention attention = problem.attention();
  const Answers<float> answers = solve(attention, problem.dout.view());
  expect_answers(answers, solve_ref(attention, problem.dout.view()),
                 attention_bounds(attention, problem.dout.view()));
  Attention without = attention;
  without.sinks = {};
  const Answers<float> plain = solve(without, problem.dout.view());
  for (int64_t d = 0; d < 8; ++d) {
    EXPECT_FLOAT_EQ(answers.out.view()(7, 0, d), plain.out.view()(7, 0, d));
    EXPECT_EQ(answers.out.view()(7, 3, d), 0);
  }
}

/// As wide as a model: all of it in one head.
TEST_P(AttentionTargets, WideHeads) {
  for (const int64_t width : {300, 512, 1024}) {
    const Problem problem({.sequences = {{70, 300}, {3, 20}},
                           .heads = 1,
                           .kv_heads = 1,
                           .width = width,
                           .value_width = width == 300 ? 512 : width,
                           .mask = {.causal = width == 512},
                           .dropout = width == 300 ? 0.2f : 0.0f,
                           .seed = static_cast<uint64_t>(width)});
    SCOPED_TRACE(problem.spec.text());
    const Attention attention = problem.attention();
    expect_answers(solve(attention, problem.dout.view()), solve_ref(attention, problem.dout.view()),
                   attention_bounds(attention, problem.dout.view()));
  }
}

TEST_P(AttentionTargets, EveryLengthNearTheEdgesOfBlocks) {
  for (const int64_t keys :
       {15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256, 257, 511, 512, 513}) {
    const Problem problem({.sequences = {{3, keys}, {keys % 70, keys % 70}},
                           .width = 8,
                           .mask = {.causal = keys % 2 == 0},
                           .table = true,
                           .seed = static_cast<uint64_t>(keys)});
    SCOPED_TRACE(problem.spec.text());
    const Attention attention = problem.attention();
    expect_answers(solve(attention, problem.dout.view()), solve_ref(attention, problem.dout.view()),
                   attention_bounds(attention, problem.dout.view()));
  }
}

/// With few rows keys are read in place; some rows of such a block may not see it at all.
TEST_P(AttentionTargets, FewRowsNearTheEdgesOfBlocks) {
  for (const int64_t keys : {12, 255, 256, 257, 260, 264, 513}) {
    for (int64_t rows = 1; rows <= 9; ++rows) {
      for (const AttentionMask mask : {AttentionMask{.causal = true}, AttentionMask{.left = 3}}) {
        const Problem problem({.sequences = {{rows, keys}},
                               .mask = mask,
                               .seed = static_cast<uint64_t>(keys * 10 + rows)});
        SCOPED_TRACE(problem.spec.text());
        const Attention attention = problem.attention();
        expect_answers(solve(attention, problem.dout.view()),
                       solve_ref(attention, problem.dout.view()),
                       attention_bounds(attention, problem.dout.view()));
      }
    }
  }
}

TEST_P(AttentionTargets, FiveHundredHeadsOfWidthOne) {
  const Problem problem({.sequences = {{11, 11}},
                         .heads = 512,
                         .kv_heads = 512,
                         .width = 1,
                         .value_width = 1,
                         .mask = {.causal = true}});
  const Attention attention = problem.attention();
  expect_answers(solve(attention, problem.dout.view()), solve_ref(attention, problem.dout.view()),
                 attention_bounds(attention, problem.dout.view()));
}

/// Tables mask keys with the least float: a whole block of such keys must not spoil the row.
TEST_P(AttentionTargets, ABiasMayMaskAWholeBlockOfKeys) {
  Problem problem({.sequences = {{600, 600}}, .heads = 1, .kv_heads = 1});
  const std::vector<int32_t> buckets = {0, 1, 1};  // distances below 0 are masked
  const std::vector<float> table = {std::numeric_limits<float>::lowest(), 0};
  Attention attention = problem.attention();
  attention.relative_bias = {View<const float, 2>(table.data(), {1, 2}), buckets};
  const Answers<float> answers = solve(attention, problem.dout.view());
  const Answers<double> expected = solve_ref(attention, problem.dout.view());
  for (int64_t t = 0; t < 600; ++t) {
    EXPECT_NEAR(answers.lse.view()(t, 0), expected.lse.view()(t, 0), 1e-4) << t;
    EXPECT_NEAR(answers.out.view()(t, 0, 0), expected.out.view()(t, 0, 0), 1e-4) << t;
  }
}

/// Where a long one is cut, short ones have parts without keys; their rows are begun all the same.
TEST_P(AttentionTargets, ShortSequencesAreCutLikeTheLongest) {
  for (const bool padding : {false, true}) {
    const Problem problem({.sequences = {{600, 600}, {9, 5}, {4, 0}, {7, 7}},
                           .heads = 1,
                           .kv_heads = 1,
                           .width = 7,
                           .value_width = 5,
                           .padding = padding,
                           .gates = GateScope::kRow,
                           .some_gates_zero = true,
                           .seed = 1});
    SCOPED_TRACE(problem.spec.text());
    ASSERT_TRUE(!padding || problem.k_lengths[0] > 256) << problem.k_lengths[0];  // else not cut
    const Attention attention = problem.attention();
    expect_answers(solve(attention, problem.dout.view()), solve_ref(attention, problem.dout.view()),
                   attention_bounds(attention, problem.dout.view()));
  }
}

/// Scores of hundreds overflow exp in float unless the largest is taken off first.
TEST_P(AttentionTargets, LargeScores) {
  const Problem problem({.sequences = {{20, 300}}, .width = 16, .scale = 40.0f});
  const Attention attention = problem.attention();
  const Bounds bounds = attention_bounds(attention, problem.dout.view());
  EXPECT_GT(bounds.largest_score, 200);
  expect_answers(solve(attention, problem.dout.view()), solve_ref(attention, problem.dout.view()),
                 bounds);
}

/// All weights are equal then, and queries and keys have no gradient.
TEST_P(AttentionTargets, AScaleOfZero) {
  const Problem problem({.sequences = {{9, 12}}, .scale = 0.0f});
  const Answers<float> answers = solve(problem.attention(), problem.dout.view());
  EXPECT_NEAR(answers.lse.view()(3, 1), std::log(12.0), kFunction * kUnit * std::log(12.0));
  EXPECT_EQ(answers.dq.values(), std::vector<float>(9 * 2 * 8));
  EXPECT_EQ(answers.dk.values(), std::vector<float>(12 * 2 * 8));
}

/// Each gradient alone, the others left out.
TEST_P(AttentionTargets, GradientsMayBeLeftOut) {
  const Problem problem({.sequences = {{7, 9}, {4, 4}},
                         .heads = 4,
                         .kv_heads = 2,
                         .table = true,
                         .gates = GateScope::kSequence});
  const Attention attention = problem.attention();
  const Answers<float> all = solve(attention, problem.dout.view());
  for (int which = 0; which < 5; ++which) {
    Answers<float> one(attention);
    AttentionGradients gradients;
    if (which == 0) gradients.dq = one.dq.view();
    if (which == 1) gradients.dk = one.dk.view();
    if (which == 2) gradients.dv = one.dv.view();
    if (which == 3) gradients.dgates = one.dgates.view();
    if (which == 4) gradients.dtable = one.dtable.view();
    attention_backward(attention, all.out.view(), all.lse.view(), problem.dout.view(), gradients);
    if (which == 0) {
      EXPECT_EQ(one.dq.values(), all.dq.values());
    }
    if (which == 1) {
      EXPECT_EQ(one.dk.values(), all.dk.values());
    }
    if (which == 2) {
      EXPECT_EQ(one.dv.values(), all.dv.values());
    }
    if (which == 3) {
      EXPECT_EQ(one.dgates.values(), all.dgates.values());
    }
    if (which == 4) {
      EXPECT_EQ(one.dtable.values(), all.dtable.values());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Simd, AttentionTargets, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace headwise::tests
