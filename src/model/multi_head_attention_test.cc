// Multi-head attention against plain loops, whose own gradients are checked by finite differences.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "headwise/core/parallel.h"
#include "headwise/kernels/simd.h"
#include "model/multi_head_attention_testing.h"

namespace headwise::tests {
namespace {

struct NamedProblem {
  const char* name;
  LayerProblem problem;
};

std::vector<NamedProblem> problems() {
  std::vector<NamedProblem> all;
  const auto add = [&](const char* name, LayerProblem problem) {
    problem.draw(all.size() + 1);
    all.push_back({name, std::move(problem)});
  };
  add("plain", {.config = {.width = 24, .heads = 4}});
  add("one head as wide as the layer", {.config = {.width = 16, .heads = 1}});
  add("heads one wide", {.config = {.width = 8, .heads = 8}});
  add("causal, no bias",
      {.config = {.width = 24, .heads = 3, .projection_bias = false, .output_bias = false},
       .causal = true});
  add("bias of projections only",
      {.config = {.width = 12, .heads = 2, .output_bias = false}, .k_lengths = {3, 1, 6}});
  add("bias of output only", {.config = {.width = 12, .heads = 2, .projection_bias = false}});
  add("a width that heads do not divide", {.config = {.width = 10, .heads = 3, .head_dim = 5}});
  add("shared keys", {.config = {.width = 24, .heads = 6, .kv_heads = 2}, .causal = true});
  add("one key/value head", {.config = {.width = 24, .heads = 6, .kv_heads = 1}});
  MultiHeadAttentionConfig uneven{.width = 24, .heads = 5, .kv_heads = 3, .head_dim = 6};
  uneven.kv_head = {2, 0, 0, 2, 0};
  add("uneven groups, and a key nobody uses", {.config = uneven});
  add("wider values", {.config = {.width = 24, .heads = 4, .value_dim = 9}});
  add("narrower values, shared keys",
      {.config = {.width = 20, .heads = 4, .kv_heads = 2, .head_dim = 7, .value_dim = 3}});
  add("cross",
      {.config = {.width = 24, .heads = 4, .source_width = 24}, .k_offsets = {0, 7, 9, 12}});
  add("cross from another width, padding",
      {.config = {.width = 12, .heads = 3, .kv_heads = 1, .value_dim = 5, .source_width = 17},
       .k_offsets = {0, 7, 9, 20},
       .k_lengths = {7, 0, 4}});
  add("cross without bias", {.config = {.width = 16,
                                        .heads = 2,
                                        .source_width = 8,
                                        .projection_bias = false,
                                        .output_bias = false},
                             .k_offsets = {0, 1, 4, 5}});
  add("gates", {.config = {.width = 24, .heads = 4}, .gates = {1, 0, -0.5f, 2}});
  add("rotary, shared keys",
      {.config = {.width = 24, .heads = 4, .kv_heads = 2}, .causal = true, .rotary = true});
  add("no heads", {.config = {.width = 7, .heads = 0}});
  add("no heads, no bias", {.config = {.width = 7, .heads = 0, .output_bias = false}});
  add("no heads, but keys", {.config = {.width = 6, .heads = 0, .kv_heads = 2, .head_dim = 3}});
  add("no heads, cross",
      {.config = {.width = 7, .heads = 0, .source_width = 5}, .k_offsets = {0, 2, 4, 6}});
  add("no rows", {.config = {.width = 8, .heads = 2}, .q_offsets = {0, 0}});
  add("no rows, but a source", {.config = {.width = 8, .heads = 2, .source_width = 3},
                                .q_offsets = {0, 0, 0},
                                .k_offsets = {0, 2, 5}});
  add("rows without a source", {.config = {.width = 8, .heads = 2, .source_width = 3},
                                .q_offsets = {0, 2, 3},
                                .k_offsets = {0, 0, 0}});
  const auto fixed = [](MultiHeadAttentionConfig config, std::vector<const char*> patterns) {
    for (const char* pattern : patterns) config.fixed.push_back(*parse_fixed_pattern(pattern));
    return config;
  };
  add("fixed heads",
      {.config = fixed({.width = 24, .heads = 6}, {"previous", "next", "first", "window(3)"}),
       .gates = {1, 2, 0.5f, 0, 1, -1}});
  add("fixed heads, causal",
      {.config = fixed({.width = 24, .heads = 4, .value_dim = 5, .projection_bias = false},
                       {"previous", "window(4)", "window(4)"}),
       .causal = true,
       .rotary = true});
  MultiHeadAttentionConfig shared = fixed({.width = 24, .heads = 5, .kv_heads = 3, .head_dim = 6},
                                          {"next", "window(2)", "first"});
  shared.kv_head = {1, 0, 2, 1, 2};
  add("fixed heads, shared values", {.config = shared});
  add("only fixed heads", {.config = fixed({.width = 8, .heads = 2}, {"first", "previous"})});
  add("a fixed head over a source",
      {.config = fixed({.width = 8, .heads = 2, .source_width = 5}, {"first"}),
       .k_offsets = {0, 3, 3, 7}});
  add("larger", {.config = {.width = 48, .heads = 6, .kv_heads = 3},
                 .q_offsets = {0, 40, 75},
                 .causal = true});
  return all;
}

class MultiHeadAttentionTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam()); }
  void TearDown() override { set_simd_target(""); }
};

INSTANTIATE_TEST_SUITE_P(Simd, MultiHeadAttentionTest, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

TEST_P(MultiHeadAttentionTest, MatchesPlainLoopsForwardAndBackward) {
  for (const auto& [name, problem] : problems()) {
    SCOPED_TRACE(name);
    expect_within(solve(problem), solve_ref<Bounded>(problem, numbers_of(problem)));
  }
}

/// A bound that a wrong head could hide under would prove nothing. Of H heads alike, one makes
/// about 1/sqrt(H) of the whole: more than a third here.
TEST(MultiHeadAttentionReference, BoundsAreFarBelowTheNumbersTheyBound) {
  const auto rms = [](const std::vector<Bounded>& all, double Bounded::*part) {
    double sum = 0;
    for (const Bounded& one : all) sum += one.*part * (one.*part);
    return std::sqrt(sum / static_cast<double>(all.size()));
  };
  for (const auto& [name, problem] : problems()) {
    const LayerReference<Bounded> expected = solve_ref<Bounded>(problem, numbers_of(problem));
    for (const auto* list : {&expected.out, &expected.dx, &expected.dweights}) {
      if (list->empty()) continue;
      EXPECT_LE(rms(*list, &Bounded::e), 0.03 * rms(*list, &Bounded::x)) << name;
    }
  }
}

/// The central difference of step h errs by h^2/6 of the third derivative and by eps/h of the loss;
/// h = cbrt(eps) balances them at eps^(2/3) of numbers whose size is at most that of the loss,
/// which is summed over so many terms.
TEST(MultiHeadAttentionReference, GradientsAreFiniteDifferences) {
  MultiHeadAttentionConfig uneven{
      .width = 6, .heads = 3, .kv_heads = 2, .head_dim = 4, .value_dim = 3};
  uneven.kv_head = {1, 0, 1};
  std::vector<LayerProblem> small;
  small.push_back({.config = {.width = 6, .heads = 2}, .q_offsets = {0, 3, 5}});
  small.push_back({.config = uneven,
                   .q_offsets = {0, 3, 5},
                   .causal = true,
                   .rotary = true,
                   .gates = {0.5f, -1, 2}});
  small.push_back({.config = {.width = 4, .heads = 2, .source_width = 3},
                   .q_offsets = {0, 2, 3},
                   .k_offsets = {0, 3, 5},
                   .k_lengths = {2, 2}});
  for (LayerProblem& problem : small) {
    problem.draw(7);
    const std::vector<double> numbers = numbers_of(problem);
    const LayerReference<double> at = solve_ref<double>(problem, numbers);
    std::vector<double> gradient = at.dx;
    gradient.insert(gradient.end(), at.dsource.begin(), at.dsource.end());
    gradient.insert(gradient.end(), at.dweights.begin(), at.dweights.end());
    ASSERT_EQ(gradient.size(), numbers.size());
    const double h = std::cbrt(std::numeric_limits<double>::epsilon());
    const auto loss = [&](const std::vector<double>& moved) {
      const std::vector<double> out = solve_ref<double>(problem, moved).out;
      double sum = 0;
      for (size_t i = 0; i < out.size(); ++i) sum += out[i] * problem.dout[i];
      return sum;
    };
    const double allowed = h * h * static_cast<double>(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      std::vector<double> up = numbers, down = numbers;
      up[i] += h;
      down[i] -= h;
      ASSERT_NEAR(gradient[i], (loss(up) - loss(down)) / (2 * h), allowed) << i;
    }
    for (size_t g = 0; g < problem.gates.size(); ++g) {  // out is linear in a gate
      const float gate = problem.gates[g];
      problem.gates[g] = gate + 1;
      const double up = loss(numbers);
      problem.gates[g] = gate - 1;
      ASSERT_NEAR(at.dgates[g], (up - loss(numbers)) / 2, allowed);
      problem.gates[g] = gate;
    }
  }
}

void expect_same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_TRUE(a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void expect_same_bits(const LayerAnswers& a, const LayerAnswers& b) {
  expect_same_bits(a.out, b.out);
  expect_same_bits(a.dx, b.dx);
  expect_same_bits(a.dsource, b.dsource);
  expect_same_bits(a.dweights, b.dweights);
  expect_same_bits(a.dgates, b.dgates);
}

TEST_P(MultiHeadAttentionTest, HasTheSameBitsForAnyNumberOfThreads) {
  const int before = threads();
  for (const auto& [name, problem] : problems()) {
    SCOPED_TRACE(name);
    set_threads(1);
    const LayerAnswers expected = solve(problem);
    for (const int count : {2, 3, 7}) {
      set_threads(count);
      expect_same_bits(solve(problem), expected);
    }
  }
  set_threads(before);
}

TEST_P(MultiHeadAttentionTest, APassIsReusedByOtherLayersWithoutATrace) {
  MultiHeadAttention::Pass pass;
  for (int round = 0; round < 2; ++round) {
    for (const auto& [name, problem] : problems()) {
      SCOPED_TRACE(name);
      MultiHeadAttentionWeights weights = problem.weights->zeros();
      std::copy_n(problem.weights->all().data(), weights.all().size(), weights.all().data());
      const MultiHeadAttention layer(std::move(weights));
      const float* const memory = pass.projected.data();
      expect_same_bits(solve(layer, problem, pass), solve(problem));
      if (round > 0) {
        EXPECT_EQ(pass.projected.data(), memory) << "it was big enough";
      }
    }
  }
}

TEST_P(MultiHeadAttentionTest, GradientsAddUpAndInputGradientsIfAsked) {
  std::vector<LayerProblem> two;
  two.push_back({.config = {.width = 12, .heads = 2}});
  two.push_back(
      {.config = {.width = 12, .heads = 2, .source_width = 5}, .k_offsets = {0, 3, 4, 9}});
  for (LayerProblem& problem : two) {
    problem.draw(3);
    const MultiHeadAttention layer(std::move(*problem.weights));
    const int64_t T = problem.T(), S = problem.S();
    const bool cross = layer.shape().cross;
    MultiHeadAttention::Pass pass;
    const LayerAnswers once = solve(layer, problem, pass);
    MultiHeadAttentionWeights gradients = layer.weights()->zeros();
    std::vector<float> dx(T * 12, 1.0f), dsource(cross ? S * 5 : 0, 1.0f);
    for (int i = 0; i < 2; ++i) {
      const MultiHeadAttention::WeightGradients to{.to = &gradients, .grad_is_zero = i == 0};
      layer.backward_output(problem.dout_view(), pass, to);
      layer.backward_attend(problem.attention_params(), pass);
      MultiHeadAttention::InputGradients inputs{
          .dx = {dx.data(), {T, 12}}, .add_to_dx = true, .add_to_dsource = true};
      if (cross) inputs.dsource = {dsource.data(), {S, 5}};
      layer.backward_project(problem.x_view(), problem.source_view(), pass, inputs, to);
    }
    // Of two additions the errors are roundings of numbers no larger than 2 |x| + 1; but what is
    // added to takes part in all roundings of the sum, of 36 terms at most.
    const auto expect_sum = [](const auto& got, const std::vector<float>& one, float start) {
      for (size_t i = 0; i < one.size(); ++i) {
        ASSERT_NEAR(got[i], 2 * one[i] + start, 4 * 36 * kUnit * (36 + 2 * std::abs(one[i])));
      }
    };
    expect_sum(dx, once.dx, 1);
    expect_sum(dsource, once.dsource, 1);
    expect_sum(gradients.all(), once.dweights, 0);
  }
}

TEST_P(MultiHeadAttentionTest, RowsThatAreNotWantedCountAsThoseWithoutAGradient) {
  LayerProblem problem{.config = {.width = 12, .heads = 2}};
  problem.draw(3);
  const MultiHeadAttention layer(std::move(*problem.weights));
  const int64_t T = problem.T();
  const std::vector<int64_t> rows = {0, 3, 4, T - 1};
  const auto R = std::ssize(rows);
  std::vector<float> all(T * 12), some(R * 12), dall(T * 12), dsome;
  const View<float, 2> out(some.data(), {R, 12});
  for (const int64_t row : rows) {
    const float* const from = &problem.dout_view()(row, 0);
    std::copy_n(from, 12, &dall[row * 12]);
    dsome.insert(dsome.end(), from, from + 12);
  }
  std::vector<float> dx[2];
  MultiHeadAttentionWeights gradients[2] = {layer.weights()->zeros(), layer.weights()->zeros()};
  for (const bool narrow : {false, true}) {
    MultiHeadAttention::Pass pass;
    layer.forward(problem.x_view(), {}, problem.attention_params(), pass, {all.data(), {T, 12}});
    const MultiHeadAttention::WeightGradients to{.to = &gradients[narrow]};
    if (narrow) {
      layer.output_rows(rows, pass, out);
      for (int64_t i = 0; i < R; ++i) {
        EXPECT_TRUE(std::equal(&out(i, 0), &out(i, 0) + 12, &all[rows[i] * 12]));
      }
      layer.backward_output_rows(rows, {dsome.data(), {R, 12}}, pass, to);
    } else {
      layer.backward_output({dall.data(), {T, 12}}, pass, to);
    }
    layer.backward_attend(problem.attention_params(), pass);
    dx[narrow].resize(T * 12);
    layer.backward_project(problem.x_view(), {}, pass, {.dx = {dx[narrow].data(), {T, 12}}}, to);
  }
  EXPECT_EQ(dx[0], dx[1]);
  for (size_t i = 0; i < gradients[0].all().size(); ++i) {
    EXPECT_NEAR(gradients[0].all()[i], gradients[1].all()[i], 36 * kUnit * 36);
  }
}

TEST_P(MultiHeadAttentionTest, OutputAddsAResidual) {
  LayerProblem problem{.config = {.width = 12, .heads = 3}};
  problem.draw(5);
  const LayerAnswers plain = solve(problem);
  const MultiHeadAttention layer(std::move(*problem.weights));
  MultiHeadAttention::Pass pass;
  std::vector<float> out(plain.out.size());
  layer.forward(problem.x_view(), {}, problem.attention_params(), pass,
                {out.data(), {problem.T(), 12}}, {.residual = problem.x_view()});
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], plain.out[i] + problem.x[i]);
}

}  // namespace
}  // namespace headwise::tests
