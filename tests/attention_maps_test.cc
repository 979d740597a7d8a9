// Materialised weights and the divergences between heads, against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "headwise/core/error.h"
#include "headwise/kernels/simd.h"
#include "kernels/attention_bounds.h"
#include "kernels/attention_ref.h"
#include "kernels/attention_testing.h"

namespace headwise::tests {
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

/// Heads of two attentions over the same rows: where only one sees a key, and where one sees none.
TEST_P(AttentionMapsOn, DivergencesAcrossAttentionsEqualThoseOfTheMaps) {
  std::vector<Spec> specs = {
      {.heads = 3, .kv_heads = 3, .mask = {.causal = true}},
      {.heads = 4, .kv_heads = 2, .width = 12, .mask = {.left = 3, .right = 2}, .alibi = true},
      {.heads = 1, .kv_heads = 1, .mask = {.left = 0, .right = 0, .shift = -1}},
      {.heads = 2, .mask = {.first_keys = 1}}};
  for (Spec& spec : specs) spec.sequences = {{30, 30}, {9, 5}, {12, 290}};
  std::vector<Problem> problems;
  for (const Spec& spec : specs) problems.emplace_back(spec);
  std::vector<Answers<float>> answers;
  std::vector<AttendedHeads> attended;
  std::vector<int64_t> of_head;
  double weight = 0;
  for (size_t i = 0; i < problems.size(); ++i) {
    const Attention attention = problems[i].attention();
    answers.push_back(solve(attention, problems[i].dout.view()));
    weight = std::max(weight, attention_bounds(attention, problems[i].dout.view()).weight);
    of_head.insert(of_head.end(), specs[i].heads, static_cast<int64_t>(i));
  }
  for (size_t i = 0; i < problems.size(); ++i) {
    attended.push_back({problems[i].attention(), answers[i].lse.view()});
  }
  const int64_t H = std::ssize(of_head), A = std::ssize(specs);
  Array<double, 2> sums({H, H});
  Array<int64_t, 2> rows({A, A});
  attention_js(attended, sums.view(), rows.view());
  std::vector<double> expected(H * H);
  std::vector<int64_t> expected_rows(A * A);
  for (int64_t t = 0; t < problems[0].rows(); ++t) {
    std::vector<std::vector<double>> maps;
    for (int64_t h = 0, i = 0; h < H; ++h) {
      i = h > 0 && of_head[h] == of_head[h - 1] ? i + 1 : 0;
      maps.push_back(attention_weights_ref(attended[of_head[h]].attention, t, i));
    }
    for (int64_t a = 0; a < H; ++a) {
      for (int64_t b = 0; b < H; ++b) {
        if (!sees_any(maps[a]) || !sees_any(maps[b])) continue;
        expected[a * H + b] += divergence(maps[a], maps[b]);
        // The first head of each attention counts for all of them.
        const bool first_a = a == 0 || of_head[a] != of_head[a - 1];
        const bool first_b = b == 0 || of_head[b] != of_head[b - 1];
        expected_rows[of_head[a] * A + of_head[b]] += first_a && first_b;
      }
    }
  }
  for (int64_t i = 0; i < A * A; ++i) {
    EXPECT_EQ(rows.view()(i / A, i % A), expected_rows[i]) << i / A << ' ' << i % A;
  }
  EXPECT_LT(expected_rows[2 * A + 2], expected_rows[0]);  // some rows see nothing before them
  const double tolerance = 2 * weight + kUnit * (290 + kFunction);  // as above
  for (int64_t a = 0; a < H; ++a) {
    for (int64_t b = 0; b < H; ++b) {
      EXPECT_NEAR(sums.view()(a, b), expected[a * H + b],
                  tolerance * static_cast<double>(problems[0].rows()))
          << a << ' ' << b;
    }
  }
}

TEST_P(AttentionMapsOn, DivergencesNeedTheSameRows) {
  const Problem one({.sequences = {{3, 4}}}), other({.sequences = {{3, 5}}});
  const Answers<float> a = solve(one.attention(), one.dout.view());
  const Answers<float> b = solve(other.attention(), other.dout.view());
  const std::vector<AttendedHeads> attended = {{one.attention(), a.lse.view()},
                                               {other.attention(), b.lse.view()}};
  Array<double, 2> sums({4, 4});
  Array<int64_t, 2> rows({2, 2});
  EXPECT_THROW(attention_js(attended, sums.view(), rows.view()), Error);
}

INSTANTIATE_TEST_SUITE_P(Simd, AttentionMapsOn, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace headwise::tests
