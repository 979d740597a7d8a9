// The reference against PyTorch: both in double, so that they agree to the rounding of what was
// stored.
#include <gtest/gtest.h>

#include <cmath>

#include "golden/attention_case.h"
#include "golden/golden.h"
#include "kernels/attention_ref.h"
#include "kernels/attention_testing.h"

namespace headwise::golden {
namespace {

// Stored values are float32 (relative 2^-24); a scale such as 1/sqrt(D) or a slope is the same
// double.
constexpr double kStoredTwice = 0x1p-23;

template <int R>
void expect_equal(const Case& one, const char* name, const tests::Array<double, R>& got) {
  if (!one.has(name)) return;
  const std::vector<double> values = got.values();
  const std::vector<float>& expected = one.tensor(name).values;
  ASSERT_EQ(values.size(), expected.size()) << name;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(expected[i])) {
      EXPECT_EQ(values[i], expected[i]) << one.name << ' ' << name << ' ' << i;
    } else {
      EXPECT_NEAR(values[i], expected[i], kStoredTwice * std::abs(expected[i]) + 1e-13)
          << one.name << ' ' << name << ' ' << i;
    }
  }
}

TEST(ReferenceGolden, ForwardAndBackwardEqualPyTorch) {
  const File file = load_named("attention");
  EXPECT_GE(file.cases.size(), 40u);
  for (const Case& one : file.cases) {
    const AttentionCase problem(one);
    const auto answers = tests::solve_ref(problem.attention(), one.tensor("dout").view<3>());
    expect_equal(one, "out", answers.out);
    expect_equal(one, "lse", answers.lse);
    expect_equal(one, "dq", answers.dq);
    expect_equal(one, "dk", answers.dk);
    expect_equal(one, "dv", answers.dv);
    expect_equal(one, "dgates", answers.dgates);
    expect_equal(one, "dtable", answers.dtable);
  }
}

TEST(ReferenceGolden, StatisticsEqualPyTorch) {
  const File file = load_named("statistics");
  for (const char* name : {"encoder", "causal", "cross"}) {
    const Case& one = file.at(name);
    const AttentionCase problem(one);
    const Attention attention = problem.attention();
    CaseObserver test_observer(one);
    tests::Array<double, 3> out(
        {attention.q.extent(0), attention.q.extent(1), attention.v.extent(2)});
    attention_forward_ref(attention, out.view(), {}, &test_observer.observer);
    SCOPED_TRACE(name);
    expect_statistics(one, test_observer.observer.heads, kStoredTwice);
  }
}

TEST(ReferenceGolden, MapsEqualPyTorch) {
  const File file = load_named("statistics");
  for (const char* name : {"encoder", "causal", "cross"}) {
    const Case& one = file.at(name);
    const AttentionCase problem(one);
    const Attention attention = problem.attention();
    auto expected = one.tensor("maps").values.begin();
    for (int64_t t = 0; t < attention.q.extent(0); ++t) {
      for (int64_t h = 0; h < attention.q.extent(1); ++h) {
        for (const double p : attention_weights_ref(attention, t, h)) {
          ASSERT_NEAR(p, *expected, kStoredTwice * *expected + 1e-15) << name << " row " << t;
          ++expected;
        }
      }
    }
  }
}

}  // namespace
}  // namespace headwise::golden
