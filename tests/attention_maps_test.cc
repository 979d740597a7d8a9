// Materialised weights and the divergences between heads, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "headwise/kernels/simd.h"
#include "kernels/attention_bounds.h"
#include "kernels/attention_ref.h"
#include "kernels/attention_testing.h"

namespace headwise::testing {
namespace {

class AttentionMapsOn : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam()); }
  void TearDown() override { set_simd_target(""); }
};

TEST_P(AttentionMapsOn, EqualTheReferenceInTheOrderGiven) {
  for (int index = 0; index < 60; ++index) {
    const Problem problem(random_spec(3000 + index));
    const Attention attention = problem.attention();
    if (problem.rows() == 0) continue;
    const Bounds bounds = attention_bounds(attention, problem.dout.view());
    const std::vector<int64_t> rows = {problem.rows() - 1, 0, problem.rows() / 2, 0};
    const AttentionMaps maps = attention_maps(attention, rows);
    ASSERT_EQ(maps.heads, problem.spec.heads);
    ASSERT_EQ(maps.offsets.size(), rows.size() * problem.spec.heads + 1);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (int64_t h = 0; h < problem.spec.heads; ++h) {
        const std::vector<double> expected = attention_weights_ref(attention, rows[i], h);
        const std::span<const float> got = maps.row(static_cast<int64_t>(i), h);
        ASSERT_EQ(got.size(), expected.size()) << problem.spec.text();
        for (size_t j = 0; j < expected.size(); ++j) {
          ASSERT_NEAR(got[j], expected[j], bounds.weight * expected[j] + kFlushed)
              << "row " << rows[i] << " head " << h << " key " << j << " of "
              << problem.spec.text();
        }
      }
    }
  }
}

/// A row far from all keys sees none; its bias must not be looked up.
TEST_P(AttentionMapsOn, ARowMayBeFarFromEveryKey) {
  Problem problem({.sequences = {{2, 10}}, .mask = {.left = 2}, .alibi = true});
  const std::vector<int64_t> positions = {1'000'000, 4};
  Attention attention = problem.attention();
  attention.positions = positions;
  const AttentionMaps maps = attention_maps(attention, std::vector<int64_t>{0, 1});
  for (const float weight : maps.row(0, 1)) EXPECT_EQ(weight, 0);
  EXPECT_NEAR(std::accumulate(maps.row(1, 1).begin(), maps.row(1, 1).end(), 0.0), 1, 1e-6);
}

TEST_P(AttentionMapsOn, RowsSumToOneOrNothing) {
  const Problem problem({.sequences = {{9, 4}, {300, 300}}, .mask = {.causal = true}});
  std::vector<int64_t> rows(problem.rows());
  std::iota(rows.begin(), rows.end(), 0);
  const AttentionMaps maps = attention_maps(problem.attention(), rows);
  for (const int64_t t : rows) {
    for (int64_t h = 0; h < 2; ++h) {
      double sum = 0;
      for (const float p : maps.row(t, h)) sum += p;
      // Each weight carries its own rounding, and the common divisor that of a sum of M.
      EXPECT_NEAR(sum, t < 5 ? 0 : 1, (300 + 2 * kFunction) * kUnit) << t;
    }
  }
}

/// exp(score - lse) is the weight: what lse promises to those who keep it.
TEST_P(AttentionMapsOn, LseGivesTheWeightsBack) {
  const Problem problem({.sequences = {{50, 50}}, .width = 16});
  const Attention attention = problem.attention();
  const Bounds bounds = attention_bounds(attention, problem.dout.view());
  const Answers<float> answers = solve(attention, problem.dout.view());
  const std::vector<double> expected = attention_weights_ref(attention, 20, 1);
  for (int64_t j = 0; j < 50; ++j) {
    double score = 0;
    for (int64_t d = 0; d < 16; ++d) score += double{attention.q(20, 1, d)} * attention.k(j, 1, d);
    EXPECT_NEAR(std::exp(score / 4 - answers.lse.view()(20, 1)), expected[j],
                2 * bounds.weight * expected[j]);
  }
}

double entropy(const std::vector<double>& p) {
  double sum = 0;
  for (const double x : p) sum -= x > 0 ? x * std::log(x) : 0;
  return sum;
}

/// JS(a, b) = H((a + b) / 2) - (H(a) + H(b)) / 2.
double divergence(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> middle(a.size());
  for (size_t j = 0; j < a.size(); ++j) middle[j] = (a[j] + b[j]) / 2;
  return entropy(middle) - (entropy(a) + entropy(b)) / 2;
}

bool sees_any(const std::vector<double>& p) {
  return std::any_of(p.begin(), p.end(), [](double x) { return x > 0; });
}

TEST_P(AttentionMapsOn, DivergencesEqualThoseOfTheMaps) {
  for (const Spec& spec :
       {Spec{.sequences = {{30, 30}, {0, 3}, {9, 5}},
       .heads = 4,
       .kv_heads = 2,
       .mask = {.causal = true},
       .alibi = true},
        Spec{.sequences = {{20, 300}}, .heads = 3, .kv_heads = 3, .padding = true},
        Spec{.sequences = {{20, 20}}, .kv_heads = 1, .width = 512, .value_width = 300},
        Spec{.sequences = {{8, 600}}, .heads = 2, .kv_heads = 1, .scale = 2.0f}}) {
    const Problem problem(spec);
    const Attention attention = problem.attention();
    const Bounds bounds = attention_bounds(attention, problem.dout.view());
    const Answers<float> answers = solve(attention, problem.dout.view());
    Array<double, 2> sums({spec.heads, spec.heads});
    sums.fill([] { return 10.0; });
    const int64_t count = attention_js(attention, answers.lse.view(), sums.view());
    int64_t expected_count = 0;
    Array<double, 2> expected({spec.heads, spec.heads});
    expected.fill([] { return 10.0; });
    for (int64_t t = 0; t < problem.rows(); ++t) {
      std::vector<std::vector<double>> rows;
      for (int64_t h = 0; h < spec.heads; ++h) {
        rows.push_back(attention_weights_ref(attention, t, h));
      }
      expected_count += sees_any(rows[0]);
      for (int64_t a = 0; a < spec.heads; ++a) {
        for (int64_t b = 0; b < spec.heads; ++b) {
          expected.view()(a, b) += divergence(rows[a], rows[b]);
        }
      }
    }
    EXPECT_EQ(count, expected_count);
    // dJS = (da ln(a/m) + db ln(b/m)) / 2 per key; p |ln(p/m)| sums to at most 1 + ln 2. Then a sum
    // of M.
    const double tolerance = 2 * bounds.weight + kUnit * (600 + kFunction);
    for (int64_t a = 0; a < spec.heads; ++a) {
      for (int64_t b = 0; b < spec.heads; ++b) {
        EXPECT_NEAR(sums.view()(a, b), expected.view()(a, b),
                    tolerance * static_cast<double>(expected_count))
            << a << ' ' << b << " of " << spec.text();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Simd, AttentionMapsOn, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace headwise::testing
