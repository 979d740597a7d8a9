// The layer against torch.nn.MultiheadAttention, output and every gradient, on every SIMD target.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "golden/golden.h"
#include "headwise/kernels/simd.h"
#include "model/multi_head_attention_testing.h"

namespace headwise::golden {
namespace {

using tests::Bounded;

constexpr double kStoredLayer = 0x1p-24;  // golden values are rounded to float32

tests::LayerProblem problem_of(const Case& one) {
  const Tensor& x = one.tensor("x");
  const bool bias = one.has("in_proj_bias"), cross = one.has("memory");
  tests::LayerProblem problem{.config = {.width = x.shape[2],
                                         .heads = one.list("heads")[0],
                                         .projection_bias = bias,
                                         .output_bias = bias}};
  const auto offsets = [](const Tensor& rows) {
    std::vector<int64_t> all;
    for (int64_t b = 0; b <= rows.shape[0]; ++b) all.push_back(b * rows.shape[1]);
    return all;
  };
  problem.q_offsets = offsets(x);
  problem.k_lengths = one.list("k_lengths");
  problem.causal = one.list("causal")[0] != 0;
  problem.x = x.values;
  problem.dout = one.tensor("dout").values;
  if (cross) {
    problem.config.source_width = one.tensor("memory").shape[2];
    problem.k_offsets = offsets(one.tensor("memory"));
    problem.source = one.tensor("memory").values;
  }
  const auto bias_of = [&](const char* name) {
    return bias ? one.tensor(name).view<1>() : View<const float, 1>();
  };
  problem.weights.emplace(problem.config);
  problem.weights->set(
      FusedProjections{one.tensor("in_proj_weight").view<2>(), bias_of("in_proj_bias")},
      {one.tensor("out_proj.weight").view<2>(), bias_of("out_proj.bias")});
  return problem;
}

void expect_close(const Case& one, const std::string& name, std::span<const float> got,
                  std::span<const Bounded> bounds) {
  const std::vector<float>& expected = one.tensor(name).values;
  ASSERT_EQ(got.size(), expected.size()) << one.name << ' ' << name;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], bounds[i].e + kStoredLayer * std::abs(expected[i]))
        << one.name << ' ' << name << ' ' << i;
  }
}

class MultiHeadAttentionGolden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam()); }
  void TearDown() override { set_simd_target(""); }
};

TEST_P(MultiHeadAttentionGolden, OutputAndAllGradients) {
  const File file = load_named("multihead");
  EXPECT_GE(file.cases.size(), 10u);
  for (const Case& one : file.cases) {
    const tests::LayerProblem problem = problem_of(one);
    const tests::LayerAnswers got = solve(problem);
    const auto bounds = tests::solve_ref<Bounded>(problem, numbers_of(problem));
    expect_close(one, "out", got.out, bounds.out);
    expect_close(one, "dx", got.dx, bounds.dx);
    if (one.has("dmemory")) expect_close(one, "dmemory", got.dsource, bounds.dsource);
    const std::span<const float> gradients = got.dweights;
    const auto expect_part = [&](const std::string& name, const float* first, int64_t size) {
      const int64_t at = first - problem.weights->all().data();
      expect_close(one, name, gradients.subspan(at, size),
                   std::span(bounds.dweights).subspan(at, size));
    };
    const auto& w = *problem.weights;
    const int64_t C = w.shape().C;
    expect_part("din_proj_weight", w.in_proj().data(), 3 * C * C);
    expect_part("dout_proj.weight", w.output().data(), C * C);
    if (!one.has("in_proj_bias")) continue;
    expect_part("din_proj_bias", w.in_proj_bias().data(), 3 * C);
    expect_part("dout_proj.bias", w.output_bias().data(), C);
  }
}

INSTANTIATE_TEST_SUITE_P(Simd, MultiHeadAttentionGolden, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace headwise::golden
