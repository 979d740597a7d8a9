// NaN and infinity that a row does not see cannot reach it, forward or backward; those it sees do
// show.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "headwise/kernels/simd.h"
#include "kernels/attention_testing.h"

namespace headwise::tests {
namespace {

class AttentionLeak : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam()); }
  void TearDown() override { set_simd_target(""); }
};

void set_row(const Array<float, 3>& array, int64_t row, float value) {
  const View<float, 3> view = array.view();
  for (int64_t h = 0; h < view.extent(1); ++h) {
    for (int64_t d = 0; d < view.extent(2); ++d) view(row, h, d) = value;
  }
}

template <class T>
bool same_row(const Array<T, 3>& a, const Array<T, 3>& b, int64_t row) {
  const View<T, 3> left = a.view(), right = b.view();
  for (int64_t h = 0; h < left.extent(1); ++h) {
    for (int64_t d = 0; d < left.extent(2); ++d) {
      if (left(row, h, d) != right(row, h, d)) return false;
    }
  }
  return true;
}

bool all_nan(const Array<float, 3>& array, int64_t row) {
  const View<float, 3> view = array.view();
  for (int64_t h = 0; h < view.extent(1); ++h) {
    for (int64_t d = 0; d < view.extent(2); ++d) {
      if (!std::isnan(view(row, h, d))) return false;
    }
  }
  return true;
}

/// Padding of all kinds holds poison; the answer has the bits it has with zeros there.
TEST_P(AttentionLeak, PaddingNeverShows) {
  for (const float poison : {kNaN, kInf, -kInf}) {
    Problem problem({.sequences = {{70, 300}, {20, 20}},
                     .heads = 4,
                     .kv_heads = 2,
                     .width = 12,
                     .table = true,
                     .gates = GateScope::kSequence});
    problem.q_lengths = {61, 20};
    problem.k_lengths = {259, 3};
    const auto fill = [&](float value) {
      for (int64_t t = 61; t < 70; ++t)
        set_row(problem.q, t, value), set_row(problem.dout, t, value);
      for (int64_t s = 259; s < 300; ++s)
        set_row(problem.k, s, value), set_row(problem.v, s, value);
      for (int64_t s = 303; s < 320; ++s)
        set_row(problem.k, s, value), set_row(problem.v, s, value);
    };
    fill(0);
    const Answers<float> clean = solve(problem.attention(), problem.dout.view());
    fill(poison);
    const Answers<float> poisoned = solve(problem.attention(), problem.dout.view());
    EXPECT_EQ(poisoned.out.values(), clean.out.values());
    EXPECT_EQ(poisoned.lse.values(), clean.lse.values());
    EXPECT_EQ(poisoned.dq.values(), clean.dq.values());
    EXPECT_EQ(poisoned.dk.values(), clean.dk.values());
    EXPECT_EQ(poisoned.dv.values(), clean.dv.values());
    EXPECT_EQ(poisoned.dgates.values(), clean.dgates.values());
    EXPECT_EQ(poisoned.dtable.values(), clean.dtable.values());
  }
}

/// Key and value `kAt` of a causal sequence are poison: earlier rows do not see them, later ones
/// do.
TEST_P(AttentionLeak, TheFutureDoesNotShowInThePast) {
  constexpr int64_t kRows = 280, kAt = 261;
  const float odd_nan = std::bit_cast<float>(0xFFFFFFFFu);
  for (const float poison : {kNaN, kInf, odd_nan}) {
    for (const float softcap : {0.0f, 5.0f}) {
      Problem problem({.sequences = {{kRows, kRows}},
                       .width = 16,
                       .value_width = 16,
                       .mask = {.causal = true},
                       .softcap = softcap,
                       .dropout = softcap > 0 ? 0.25f : 0.0f,
                       .table = softcap > 0});
      const Answers<float> clean = solve(problem.attention(), problem.dout.view());
      set_row(problem.k, kAt, poison), set_row(problem.v, kAt, poison);
      const Answers<float> poisoned = solve(problem.attention(), problem.dout.view());
      for (int64_t t = 0; t < kRows; ++t) {
        if (t < kAt) {
          EXPECT_TRUE(same_row(poisoned.out, clean.out, t)) << t;
          EXPECT_TRUE(same_row(poisoned.dq, clean.dq, t)) << t;
        } else if (std::isnan(poison)) {
          EXPECT_TRUE(all_nan(poisoned.out, t)) << t;
          EXPECT_TRUE(all_nan(poisoned.dq, t)) << t;
        }
      }
    }
  }
}

/// The bias of keys that a row does not see is never used.
TEST_P(AttentionLeak, TheBiasOfUnseenKeysDoesNotShow) {
  for (const auto& [rows, keys] : {std::pair{70, 300}, std::pair{3, 261}}) {
    Problem problem({.sequences = {{rows, keys}, {4, 9}}, .mask = {.causal = true}, .bias = true});
    const Answers<float> clean = solve(problem.attention(), problem.dout.view());
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = keys - rows + i + 1; j < keys; ++j) problem.bias.view()(0, h, i, j) = kNaN;
      }
      problem.bias.view()(1, h, 1, 6) = kNaN;  // the row sees it
    }
    const Answers<float> poisoned = solve(problem.attention(), problem.dout.view());
    for (int64_t t = 0; t < problem.rows(); ++t) {
      EXPECT_EQ(same_row(poisoned.out, clean.out, t), t != rows + 1) << t;
      EXPECT_EQ(same_row(poisoned.dq, clean.dq, t), t != rows + 1) << t;
    }
    EXPECT_TRUE(all_nan(poisoned.out, rows + 1));
  }
}

/// With a sliding window, rows beyond it do not see a poisoned key, and keys out of its reach get
/// no NaN.
TEST_P(AttentionLeak, WindowsKeepItOut) {
  constexpr int64_t kRows = 300, kAt = 100, kLeft = 5;
  Problem problem({.sequences = {{kRows, kRows}}, .mask = {.causal = true, .left = kLeft}});
  const Answers<float> clean = solve(problem.attention(), problem.dout.view());
  set_row(problem.k, kAt, kNaN), set_row(problem.v, kAt, kNaN);
  const Answers<float> poisoned = solve(problem.attention(), problem.dout.view());
  for (int64_t t = 0; t < kRows; ++t) {
    const bool sees = t >= kAt && t <= kAt + kLeft;
    EXPECT_EQ(same_row(poisoned.out, clean.out, t), !sees) << t;
    EXPECT_EQ(same_row(poisoned.dq, clean.dq, t), !sees) << t;
    const bool reached = t >= kAt - kLeft && t <= kAt + kLeft;
    EXPECT_EQ(same_row(poisoned.dk, clean.dk, t), !reached) << t;
    if (!reached) {
      EXPECT_TRUE(same_row(poisoned.dv, clean.dv, t)) << t;
    }
  }
}

/// A NaN query spoils its own row only, and the gradients of the keys it sees.
TEST_P(AttentionLeak, AQueryStaysInItsRow) {
  Problem problem({.sequences = {{40, 40}, {6, 6}}, .mask = {.causal = true}});
  const Answers<float> clean = solve(problem.attention(), problem.dout.view());
  set_row(problem.q, 17, kNaN);
  const Answers<float> poisoned = solve(problem.attention(), problem.dout.view());
  for (int64_t t = 0; t < 46; ++t) {
    EXPECT_EQ(same_row(poisoned.out, clean.out, t), t != 17) << t;
    EXPECT_EQ(same_row(poisoned.dq, clean.dq, t), t != 17) << t;
    EXPECT_EQ(same_row(poisoned.dk, clean.dk, t), t > 17) << t;
    EXPECT_EQ(same_row(poisoned.dv, clean.dv, t), t > 17) << t;
  }
  EXPECT_TRUE(all_nan(poisoned.out, 17));
  EXPECT_TRUE(std::isnan(poisoned.lse.view()(17, 0)));
}

/// A head whose gate is 0 may hold anything.
TEST_P(AttentionLeak, AHeadGatedOffDoesNotShow) {
  Problem problem({.sequences = {{30, 30}}, .heads = 3, .kv_heads = 3, .gates = GateScope::kHead});
  problem.gates.view()(0, 1) = 0;
  const Answers<float> clean = solve(problem.attention(), problem.dout.view());
  for (int64_t t = 0; t < 30; ++t) {
    for (int64_t d = 0; d < 8; ++d) {
      problem.q.view()(t, 1, d) = problem.k.view()(t, 1, d) = problem.v.view()(t, 1, d) = kNaN;
    }
  }
  const Answers<float> poisoned = solve(problem.attention(), problem.dout.view());
  EXPECT_EQ(poisoned.out.values(), clean.out.values());
  EXPECT_EQ(poisoned.dq.values(), clean.dq.values());
  EXPECT_EQ(poisoned.dk.values(), clean.dk.values());
  EXPECT_EQ(poisoned.dv.values(), clean.dv.values());
}

/// A row whose gate is 0 asks nothing: its query and what comes back for it may hold anything,
/// while the rows around it still see its key.
TEST_P(AttentionLeak, ARowGatedOffDoesNotShow) {
  Problem problem({.sequences = {{40, 40}, {20, 20}},
                   .heads = 3,
                   .kv_heads = 3,
                   .dropout = 0.2f,
                   .gates = GateScope::kRow});
  const auto gated_off = [](int64_t t, int64_t h) { return (t + h) % 3 != 0; };
  for (int64_t t = 0; t < 60; ++t) {
    for (int64_t h = 0; h < 3; ++h) {
      if (gated_off(t, h)) problem.gates.view()(t, h) = 0;
    }
  }
  const Answers<float> clean = solve(problem.attention(), problem.dout.view());
  for (int64_t t = 0; t < 60; ++t) {
    for (int64_t h = 0; h < 3; ++h) {
      if (!gated_off(t, h)) continue;
      for (int64_t d = 0; d < 8; ++d) {
        problem.q.view()(t, h, d) = problem.dout.view()(t, h, d) = kNaN;
        EXPECT_EQ(clean.out.view()(t, h, d), 0);
        EXPECT_EQ(clean.dq.view()(t, h, d), 0);
      }
      EXPECT_EQ(clean.lse.view()(t, h), -kInf);  // the work was skipped
      EXPECT_EQ(clean.dgates.view()(t, h), 0);
    }
  }
  const Answers<float> poisoned = solve(problem.attention(), problem.dout.view());
  EXPECT_EQ(poisoned.out.values(), clean.out.values());
  EXPECT_EQ(poisoned.dq.values(), clean.dq.values());
  EXPECT_EQ(poisoned.dk.values(), clean.dk.values());
  EXPECT_EQ(poisoned.dv.values(), clean.dv.values());
  EXPECT_EQ(poisoned.dgates.values(), clean.dgates.values());
}

INSTANTIATE_TEST_SUITE_P(Simd, AttentionLeak, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

}  // namespace
}  // namespace headwise::tests
