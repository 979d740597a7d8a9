// What observers see, against the reference, on every SIMD target.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "headwise/kernels/simd.h"
#include "kernels/attention_bounds.h"
#include "kernels/attention_ref.h"
#include "kernels/attention_testing.h"

namespace headwise::tests {
namespace {

/// How far each running_mean of a head may be off; the bounds of attention_bounds.h summed over
/// rows.
struct StatisticsBounds {
  double mass;     // of one row, a weight or a sum of weights
  double entropy;  // of one row: |dp| |ln p + 1| summed, and the same for lse - sum p s
  double near_ties = 0;

  StatisticsBounds(const Bounds& bounds, double keys)
      : mass(bounds.weight + kUnit * (keys + kFunction)),
        entropy(mass * (2 * bounds.largest_score + std::log(keys + 1) + 1) + bounds.lse +
                bounds.score) {}
};

void expect_running_mean(const char* name, const RunningMean& got, const RunningMean& expected,
                         double tolerance) {
  EXPECT_EQ(got.n, expected.n) << name;
  EXPECT_NEAR(got.sum, expected.sum, tolerance * static_cast<double>(expected.n) + 1e-30) << name;
}

void expect_head(const HeadStatistics& got, const HeadStatistics& expected,
                 const StatisticsBounds& bounds, double keys) {
  expect_running_mean("entropy", got.entropy, expected.entropy, bounds.entropy);
  expect_running_mean("entropy_ratio", got.entropy_ratio, expected.entropy_ratio,
                      2 * bounds.entropy);  // ln 2 and up below the fraction
  expect_running_mean("confidence", got.confidence, expected.confidence, bounds.mass);
  expect_running_mean("mass_first", got.mass_first, expected.mass_first, bounds.mass);
  expect_running_mean("mass_last", got.mass_last, expected.mass_last, bounds.mass);
  ASSERT_EQ(got.mass_key_set.size(), expected.mass_key_set.size());
  for (size_t g = 0; g < got.mass_key_set.size(); ++g) {
    expect_running_mean("mass_key_set", got.mass_key_set[g], expected.mass_key_set[g], bounds.mass);
  }
  expect_running_mean("mass_given", got.mass_given, expected.mass_given, bounds.mass);
  expect_running_mean("mass_sink", got.mass_sink, expected.mass_sink, bounds.mass * (keys + 1));
  expect_running_mean("distance", got.distance, expected.distance, bounds.mass * (keys + 8));
  expect_running_mean("mass_previous", got.mass_previous, expected.mass_previous, bounds.mass);
  expect_running_mean("mass_self", got.mass_self, expected.mass_self, bounds.mass);
  expect_running_mean("mass_next", got.mass_next, expected.mass_next, bounds.mass);
  expect_running_mean("mass_window", got.mass_window, expected.mass_window, bounds.mass);
  expect_running_mean("mass_diagonal", got.mass_diagonal, expected.mass_diagonal, bounds.mass);
  for (size_t d = 0; d < got.offset_share.size(); ++d) {
    EXPECT_EQ(got.offset_share[d].n, expected.offset_share[d].n) << "offset " << d;
    EXPECT_NEAR(got.offset_share[d].sum, expected.offset_share[d].sum, bounds.near_ties)
        << "offset " << d;
  }
}

/// Whether rounding cannot tell the weight of the key named from the largest.
bool as_large(const std::vector<double>& p, int32_t got, int32_t expected, double bound) {
  if (got < 0 || expected < 0 || got >= static_cast<int64_t>(p.size())) return false;
  return p[got] >= p[expected] * (1 - 2 * bound) - kFlushed;
}

/// How far a correlation may be off. Of vectors off their means by a and b it is the cosine, and
/// moves by at most twice what a and b are moved by, relative to their lengths.
double correlation_bound(const std::vector<double>& p, const float* numbers, double weight_bound) {
  std::vector<double> x, y;
  for (size_t j = 0; j < p.size(); ++j) {
    if (p[j] == 0 || std::isnan(numbers[j])) continue;
    x.push_back(p[j]);
    y.push_back(numbers[j]);
  }
  const auto n = static_cast<double>(x.size());
  const auto magnified = [&](const std::vector<double>& values) {  // length, and off the mean
    double sum = 0, squares = 0, off = 0;
    for (const double v : values) sum += v, squares += v * v;
    for (const double v : values) off += (v - sum / n) * (v - sum / n);
    return std::sqrt(squares / off);
  };
  const double sums = kUnit * (n + kFunction);
  return 2 * (magnified(x) * (weight_bound + sums) + magnified(y) * sums);
}

struct Case {
  Problem problem;
  bool cross;
};

void expect_observed(const Case& one, const Bounds& bounds, const TestObserver& got,
                     const TestObserver& expected) {
  const Attention attention = one.problem.attention();
  double keys = 1;
  for (const auto& s : one.problem.spec.sequences) keys = std::max<double>(keys, s.keys);
  const int64_t heads = attention.q.extent(1);
  ASSERT_EQ(got.observer.heads.size(), static_cast<size_t>(heads));
  for (int64_t h = 0; h < heads; ++h) {
    SCOPED_TRACE("head " + std::to_string(h));
    StatisticsBounds limits(bounds, keys);
    for (int64_t t = 0; t < attention.q.extent(0); ++t) {
      const int64_t at = t * heads + h;
      const auto expect_largest = [&](int32_t key, int32_t right) {
        if (key == right) return;
        EXPECT_TRUE(as_large(attention_weights_ref(attention, t, h), key, right, limits.mass))
            << "row " << t << ": " << key << " for " << right;
      };
      expect_largest(got.largest[at], expected.largest[at]);
      expect_largest(got.largest_kept[at], expected.largest_kept[at]);
      EXPECT_NEAR(got.given_weight[at], expected.given_weight[at], limits.mass) << "row " << t;
      limits.near_ties += got.largest[at] != expected.largest[at];
      if (expected.compared[t] < 0) continue;
      const float right = expected.correlation[expected.compared[t] * heads + h];
      const float correlation = got.correlation[got.compared[t] * heads + h];
      if (std::isnan(right) && std::isnan(correlation)) continue;
      const double bound =
          correlation_bound(attention_weights_ref(attention, t, h),
                            &expected.observer.compared_with(expected.compared[t], 0), limits.mass);
      if (bound > 0.1) continue;  // rounding may decide whether the weights vary
      EXPECT_NEAR(correlation, right, bound) << "row " << t;
    }
    expect_head(got.observer.heads[h], expected.observer.heads[h], limits, keys);
  }
}

// Every eighth problem is long: a number of groups prime to that spreads them.
constexpr int kObservedProblems = 160, kObservedGroups = 7;

class ObserverSweep : public ::testing::TestWithParam<int> {
 protected:
  void TearDown() override { set_simd_target(""); }
};

TEST_P(ObserverSweep, EqualsTheReference) {
  for (int index = GetParam(); index < kObservedProblems; index += kObservedGroups) {
    const Case one{Problem(random_spec(1000 + index)), index % 3 == 0};
    const Attention attention = one.problem.attention();
    TestObserver expected(attention, one.cross, index);
    const Answers<double> reference =
        solve_ref(attention, one.problem.dout.view(), {.observer = &expected.observer});
    const Bounds bounds = attention_bounds(attention, one.problem.dout.view());
    for (const std::string& target : simd_targets()) {
      SCOPED_TRACE("problem " + std::to_string(1000 + index) + " on " + target + ": " +
                   one.problem.spec.text());
      set_simd_target(target);
      TestObserver got(attention, one.cross, index);
      Array<float, 3> out({attention.q.extent(0), attention.q.extent(1), attention.v.extent(2)});
      Array<float, 2> lse({attention.q.extent(0), attention.q.extent(1)});
      attention_forward(attention, out.view(), lse.view(), &got.observer);
      expect_observed(one, bounds, got, expected);
      const std::vector<float> values = out.values(), lses = lse.values();
      const std::vector<double> right = reference.out.values();
      const std::vector<double> scale = bounds.absolute.out.values();
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_LE(std::abs(values[i] - right[i]), bounds.output * scale[i] + kFlushed);
      }
      for (size_t i = 0; i < lses.size(); ++i) {
        const double right_lse = reference.lse.values()[i];
        if (lses[i] != right_lse) {
          EXPECT_NEAR(lses[i], right_lse, bounds.lse);
        }
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Random, ObserverSweep, ::testing::Range(0, kObservedGroups));

TEST(AttentionObserver, AddsToWhatItHas) {
  const Problem problem({.sequences = {{9, 9}}, .heads = 3, .kv_heads = 3});
  const Attention attention = problem.attention();
  TestObserver once(attention, false, 1), twice(attention, false, 1);
  Array<float, 3> out({9, 3, 8});
  attention_forward(attention, out.view(), {}, &once.observer);
  attention_forward(attention, out.view(), {}, &twice.observer);
  attention_forward(attention, out.view(), {}, &twice.observer);
  for (int h = 0; h < 3; ++h) {
    const HeadStatistics &one = once.observer.heads[h], &two = twice.observer.heads[h];
    EXPECT_EQ(two.entropy.n, 2 * one.entropy.n);
    EXPECT_DOUBLE_EQ(two.entropy.sum, 2 * one.entropy.sum);
    EXPECT_DOUBLE_EQ(two.mass_key_set[1].sum, 2 * one.mass_key_set[1].sum);
    EXPECT_EQ(two.offset_share[8].n, 2 * one.offset_share[8].n);
  }
}

TEST(AttentionObserver, StatisticsAddUp) {
  HeadStatistics a, b;
  a.entropy = {1.5, 2};
  b.entropy = {0.25, 3};
  b.mass_key_set = {{1, 1}, {2, 4}};
  b.offset_share[16] = {1, 2};
  b.mass_diagonal = {0.5, 1};
  a += b;
  a += b;
  EXPECT_EQ(a.entropy.sum, 2);
  EXPECT_EQ(a.entropy.n, 8);
  ASSERT_EQ(a.mass_key_set.size(), 2u);
  EXPECT_EQ(a.mass_key_set[1].sum, 4);
  EXPECT_EQ(a.offset_share[16].n, 4);
  EXPECT_EQ(a.mass_diagonal.sum, 1);
}

/// Weights that differ in their last digits only are not correlated with anything, nor are equal
/// numbers, nor fewer than three.
TEST(AttentionObserver, CorrelatesWhatVaries) {
  Problem problem({.sequences = {{300, 300}}, .mask = {.causal = true}});
  const auto correlations = [&] {
    const Attention attention = problem.attention();
    TestObserver test_observer(attention, false, 1);
    std::iota(test_observer.compared.begin(), test_observer.compared.end(), 0);
    test_observer.numbers.assign(300 * 300, 0.25f);
    for (int64_t i = 0; i < 300; ++i) {
      if (i % 2 == 0) test_observer.numbers[i * 300] = 0.5f;
    }
    test_observer.correlation.assign(300 * 2, 77);
    test_observer.observer.compared_with = {test_observer.numbers.data(), {300, 300}};
    test_observer.observer.correlation = {test_observer.correlation.data(), {300, 2}};
    Array<float, 3> out({300, 2, 8});
    attention_forward(attention, out.view(), {}, &test_observer.observer);
    return test_observer.correlation;
  };
  for (const std::string& target : simd_targets()) {
    set_simd_target(target);
    const std::vector<float> some = correlations();
    for (int64_t i = 0; i < 300; ++i) {
      EXPECT_EQ(std::isnan(some[2 * i]), i < 2 || i % 2 == 1) << target << " row " << i;
    }
  }
  problem.q.fill([] { return 0.0f; });
  for (const std::string& target : simd_targets()) {
    set_simd_target(target);
    for (const float correlation : correlations()) EXPECT_TRUE(std::isnan(correlation)) << target;
  }
  set_simd_target("");
}

/// Queries of zero make all scores equal: the largest is the first key that is seen.
TEST(AttentionObserver, TiesGoToTheSmallestKey) {
  Problem problem({.sequences = {{300, 300}}, .mask = {.causal = true, .left = 290}});
  problem.q.fill([] { return 0.0f; });
  const Attention attention = problem.attention();
  for (const std::string& target : simd_targets()) {
    set_simd_target(target);
    TestObserver test_observer(attention, false, 1);
    std::fill(test_observer.left_out.begin(), test_observer.left_out.end(), 0);
    test_observer.left_out[0] = test_observer.left_out[1] = 1;
    Array<float, 3> out({300, 2, 8});
    attention_forward(attention, out.view(), {}, &test_observer.observer);
    for (int32_t i = 0; i < 300; ++i) {
      const int32_t first = std::max(0, i - 290);
      EXPECT_EQ(test_observer.largest[2 * i], first);
      EXPECT_EQ(test_observer.largest_kept[2 * i], i < 2 ? -1 : std::max(2, first));
    }
  }
  set_simd_target("");
}

}  // namespace
}  // namespace headwise::tests
