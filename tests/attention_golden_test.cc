// The fast kernel against PyTorch, on every SIMD target.
#include <gtest/gtest.h>

#include <cmath>

#include "golden/attention_case.h"
#include "golden/golden.h"
#include "headwise/kernels/simd.h"
#include "kernels/attention_bounds.h"
#include "kernels/attention_testing.h"

namespace headwise::golden {
namespace {

constexpr double kStored = 0x1p-24;  // golden values are rounded to float32

class AttentionGolden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam()); }
  void TearDown() override { set_simd_target(""); }
};

template <int R>
void expect_close(const Case& one, const char* name, const tests::Array<float, R>& got,
                  const tests::Array<double, R>& absolute, double bound) {
  if (!one.has(name)) return;
  const std::vector<float> values = got.values();
  const std::vector<float>& expected = one.tensor(name).values;
  const std::vector<double> scale = absolute.values();
  ASSERT_EQ(values.size(), expected.size()) << one.name << ' ' << name;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], bound * scale[i] + kStored * std::abs(expected[i]))
        << one.name << ' ' << name << ' ' << i;
  }
}

void expect_lse(const Case& one, const tests::Array<float, 2>& got, double bound) {
  const std::vector<float> values = got.values();
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = one.tensor("lse").values[i];
    if (std::isinf(expected)) {
      ASSERT_EQ(values[i], expected) << one.name << " lse " << i;
    } else {
      ASSERT_NEAR(values[i], expected, bound + kStored * std::abs(expected))
          << one.name << " lse " << i;
    }
  }
}

TEST_P(AttentionGolden, ForwardAndBackward) {
  const File file = load_named("attention");
  EXPECT_GE(file.cases.size(), 40u);
  for (const Case& one : file.cases) {
    const AttentionCase problem(one);
    const Attention attention = problem.attention();
    const View<const float, 3> dout = one.tensor("dout").view<3>();
    const tests::Answers<float> got = tests::solve(attention, dout);
    const tests::Bounds bounds = tests::attention_bounds(attention, dout);
    expect_close(one, "out", got.out, bounds.absolute.out, bounds.output);
    expect_lse(one, got.lse, bounds.lse);
    expect_close(one, "dq", got.dq, bounds.absolute.dq, bounds.gradient);
    expect_close(one, "dk", got.dk, bounds.absolute.dk, bounds.gradient);
    expect_close(one, "dv", got.dv, bounds.absolute.dv, bounds.gradient);
    expect_close(one, "dgates", got.dgates, bounds.absolute.dgates, bounds.gradient);
    expect_close(one, "dtable", got.dtable, bounds.absolute.dtable, bounds.gradient);
  }
}

/// Within what the definitions of the measures allow between implementations.
TEST_P(AttentionGolden, Statistics) {
  const File file = load_named("statistics");
  for (const char* name : {"encoder", "causal", "cross"}) {
    const Case& one = file.at(name);
    const AttentionCase problem(one);
    const Attention a = problem.attention();
    CaseObserver test_observer(one);
    tests::Array<float, 3> out({a.q.extent(0), a.q.extent(1), a.v.extent(2)});
    attention_forward(a, out.view(), {}, &test_observer.observer);
    SCOPED_TRACE(name);
    expect_statistics(one, test_observer.observer.heads, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Simd, AttentionGolden, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

TEST(T5BucketsGolden, EqualThoseOfTransformers) {
  const File file = load_named("statistics");
  int checked = 0;
  for (const Case& one : file.cases) {
    if (!one.has("bucket")) continue;
    const std::vector<int64_t> shape = one.list("t5");
    const std::vector<int32_t> buckets = t5_buckets(shape[0], shape[1], shape[2] != 0);
    ASSERT_EQ(buckets.size() % 2, 1u);
    const auto reach = static_cast<int64_t>(buckets.size() / 2);
    const std::vector<int64_t> distance = one.list("distance"), expected = one.list("bucket");
    for (size_t i = 0; i < distance.size(); ++i) {
      EXPECT_EQ(buckets[std::clamp(distance[i], -reach, reach) + reach], expected[i])
          << one.name << " at distance " << distance[i];
    }
    ++checked;
  }
  EXPECT_EQ(checked, 6);
}

}  // namespace
}  // namespace headwise::golden
