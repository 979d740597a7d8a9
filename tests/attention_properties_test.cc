// What must hold of attention whatever its numbers: symmetries, gates, rows that see nothing,
// threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "headwise/core/parallel.h"
#include "kernels/attention_bounds.h"
#include "kernels/attention_testing.h"

namespace headwise::tests {
namespace {

/// The given heads of an array, in the given order.
Array<float, 3> select_heads(const Array<float, 3>& from, const std::vector<int64_t>& heads) {
  const View<float, 3> source = from.view();
  Array<float, 3> to({source.extent(0), static_cast<int64_t>(heads.size()), source.extent(2)});
  for (int64_t t = 0; t < source.extent(0); ++t) {
    for (size_t h = 0; h < heads.size(); ++h) {
      for (int64_t d = 0; d < source.extent(2); ++d) to.view()(t, h, d) = source(t, heads[h], d);
    }
  }
  return to;
}

template <class T>
std::vector<T> select(const std::vector<T>& from, const std::vector<int64_t>& at) {
  std::vector<T> to;
  for (const int64_t i : at) to.push_back(from[i]);
  return to;
}

/// Two answers in float to the same question are at most twice the bound apart.
template <int R>
void expect_near(const char* name, const Array<float, R>& a, const Array<float, R>& b,
                 const Array<double, R>& absolute, double bound) {
  const std::vector<float> left = a.values(), right = b.values();
  const std::vector<double> scale = absolute.values();
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) {
    ASSERT_NEAR(left[i], right[i], 2 * bound * scale[i] + kFlushed) << name << ' ' << i;
  }
}

TEST(AttentionProperties, PermutingHeadsPermutesOutputs) {
  const std::vector<int64_t> order = {2, 0, 3, 1};
  const Problem problem({.sequences = {{30, 30}, {7, 7}},
                         .heads = 4,
                         .kv_heads = 4,
                         .width = 12,
                         .mask = {.causal = true},
                         .alibi = true});
  const Attention plain = problem.attention();
  const Answers<float> before = solve(plain, problem.dout.view());
  const Array<float, 3> q = select_heads(problem.q, order), k = select_heads(problem.k, order),
                        v = select_heads(problem.v, order),
                        dout = select_heads(problem.dout, order);
  const std::vector<float> slopes = select(problem.slopes, order);
  Attention permuted = plain;
  permuted.q = q.view(), permuted.k = k.view(), permuted.v = v.view();
  permuted.alibi_slopes = slopes;
  const Answers<float> after = solve(permuted, dout.view());
  EXPECT_EQ(after.out.values(), select_heads(before.out, order).values());
  EXPECT_EQ(after.dq.values(), select_heads(before.dq, order).values());
  EXPECT_EQ(after.dk.values(), select_heads(before.dk, order).values());
  EXPECT_EQ(after.dv.values(), select_heads(before.dv, order).values());
}

TEST(AttentionProperties, SplittingABatchChangesNothing) {
  const Problem problem({.sequences = {{20, 30}, {0, 4}, {50, 50}, {1, 300}},
                         .heads = 4,
                         .kv_heads = 2,
                         .mask = {.causal = true},
                         .table = true});
  const Attention whole = problem.attention();
  const Answers<float> all = solve(whole, problem.dout.view());
  const Bounds bounds = attention_bounds(whole, problem.dout.view());
  for (size_t b = 0; b < 4; ++b) {
    const int64_t row = problem.q_offsets[b], rows = problem.q_offsets[b + 1] - row;
    const int64_t key = problem.k_offsets[b], keys = problem.k_offsets[b + 1] - key;
    const std::vector<int64_t> q_offsets = {0, rows}, k_offsets = {0, keys};
    Attention part = whole;
    part.q = whole.q.rows(row, row + rows);
    part.k = whole.k.rows(key, key + keys), part.v = whole.v.rows(key, key + keys);
    part.q_offsets = q_offsets, part.k_offsets = k_offsets;
    const Answers<float> one = solve(part, problem.dout.view().rows(row, row + rows));
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t h = 0; h < 4; ++h) {
        for (int64_t d = 0; d < 8; ++d) {
          ASSERT_NEAR(one.out.view()(t, h, d), all.out.view()(row + t, h, d),
                      2 * bounds.output * bounds.absolute.out.view()(row + t, h, d));
        }
      }
    }
    for (int64_t s = 0; s < keys; ++s) {
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t d = 0; d < 8; ++d) {
          ASSERT_NEAR(one.dk.view()(s, h, d), all.dk.view()(key + s, h, d),
                      2 * bounds.gradient * bounds.absolute.dk.view()(key + s, h, d));
        }
      }
    }
  }
}

TEST(AttentionProperties, AGateOfZeroRemovesTheHead) {
  const std::vector<int64_t> kept = {0, 2, 3, 5};
  Problem problem({.sequences = {{40, 40}, {9, 9}},
                   .heads = 6,
                   .kv_heads = 3,
                   .width = 16,
                   .kv_head = {0, 0, 0, 1, 2, 2},
                   .mask = {.causal = true},
                   .gates = GateScope::kHead});
  problem.gates.view()(0, 1) = problem.gates.view()(0, 4) = 0;
  const Attention gated = problem.attention();
  const Answers<float> with = solve(gated, problem.dout.view());
  const Array<float, 3> q = select_heads(problem.q, kept), dout = select_heads(problem.dout, kept);
  const std::vector<float> gates = select(problem.gates.values(), kept);
  const std::vector<int32_t> kv_head = select(problem.spec.kv_head, kept);
  Attention removed = gated;
  removed.q = q.view();
  removed.kv_head = kv_head;
  removed.gates = {gates.data(), {1, 4}};
  const Answers<float> without = solve(removed, dout.view());
  EXPECT_EQ(select_heads(with.out, kept).values(), without.out.values());
  EXPECT_EQ(select_heads(with.dq, kept).values(), without.dq.values());
  for (const int64_t head : {1, 4}) {
    EXPECT_THAT(select_heads(with.out, {head}).values(), ::testing::Each(0.0f));
    EXPECT_THAT(select_heads(with.dq, {head}).values(), ::testing::Each(0.0f));
    EXPECT_EQ(with.lse.view()(3, head), -kInf);
    EXPECT_EQ(with.dgates.view()(0, head), 0);
  }
  const Bounds bounds = attention_bounds(gated, problem.dout.view());
  expect_near("dk", with.dk, without.dk, bounds.absolute.dk, bounds.gradient);
  expect_near("dv", with.dv, without.dv, bounds.absolute.dv, bounds.gradient);
}

TEST(AttentionProperties, RowsThatSeeNothingAreZeroAndHaveNoGradient) {
  // Rows before the first key: 7 rows, 3 keys, aligned to the end; and a sequence without keys.
  const Problem problem({.sequences = {{7, 3}, {4, 0}},
                         .mask = {.causal = true},
                         .table = true,
                         .gates = GateScope::kRow});
  const Answers<float> answers = solve(problem.attention(), problem.dout.view());
  for (int64_t t = 0; t < 11; ++t) {
    const bool blind = t < 4 || t >= 7;
    for (int64_t h = 0; h < 2; ++h) {
      EXPECT_EQ(std::isinf(answers.lse.view()(t, h)), blind);
      EXPECT_EQ(answers.dgates.view()(t, h) == 0, blind);
      for (int64_t d = 0; d < 8; ++d) {
        EXPECT_EQ(answers.out.view()(t, h, d) == 0, blind);
        if (blind) {
          EXPECT_EQ(answers.dq.view()(t, h, d), 0);
        }
      }
    }
  }
}

TEST(AttentionProperties, NothingAtAllIsFine) {
  const Problem no_rows({.sequences = {{0, 0}, {0, 5}}});
  const Answers<float> answers = solve(no_rows.attention(), no_rows.dout.view());
  EXPECT_THAT(answers.dk.values(), ::testing::Each(0.0f));
  EXPECT_THAT(answers.dv.values(), ::testing::Each(0.0f));
}

TEST(AttentionProperties, HeadDropoutOfOneDropsAll) {
  const Problem problem({.sequences = {{5, 5}}, .head_dropout = 1});
  const Answers<float> answers = solve(problem.attention(), problem.dout.view());
  EXPECT_THAT(answers.out.values(), ::testing::Each(0.0f));
  EXPECT_THAT(answers.dq.values(), ::testing::Each(0.0f));
  EXPECT_THAT(answers.dv.values(), ::testing::Each(0.0f));
}

/// One buffer holds q, k and v of each token side by side, as a fused product leaves them.
TEST(AttentionProperties, FusedInputsGiveTheSameBits) {
  const Problem problem({.sequences = {{33, 33}}, .heads = 4, .kv_heads = 2, .width = 16});
  const Attention apart = problem.attention();
  const int64_t wide = (4 + 2) * 16 + 2 * 8;
  std::vector<float> fused(33 * wide), gradient(33 * wide);
  const auto views = [&](std::vector<float>& data) {
    return std::array{View<float, 3>(data.data(), {33, 4, 16}, {wide, 16, 1}),
                      View<float, 3>(data.data() + 64, {33, 2, 16}, {wide, 16, 1}),
                      View<float, 3>(data.data() + 96, {33, 2, 8}, {wide, 8, 1})};
  };
  const auto copy = [](View<const float, 3> from, View<float, 3> to) {
    for (int64_t t = 0; t < from.extent(0); ++t) {
      for (int64_t h = 0; h < from.extent(1); ++h) {
        for (int64_t d = 0; d < from.extent(2); ++d) to(t, h, d) = from(t, h, d);
      }
    }
  };
  const auto inputs = views(fused), gradients = views(gradient);
  copy(apart.q, inputs[0]), copy(apart.k, inputs[1]), copy(apart.v, inputs[2]);
  Attention together = apart;
  together.q = inputs[0], together.k = inputs[1], together.v = inputs[2];
  const Answers<float> expected = solve(apart, problem.dout.view());
  Answers<float> got(apart);
  attention_forward(together, got.out.view(), got.lse.view());
  attention_backward(together, got.out.view(), got.lse.view(), problem.dout.view(),
                     {.dq = gradients[0], .dk = gradients[1], .dv = gradients[2]});
  copy(gradients[0], got.dq.view()), copy(gradients[1], got.dk.view());
  copy(gradients[2], got.dv.view());
  EXPECT_EQ(got.out.values(), expected.out.values());
  EXPECT_EQ(got.dq.values(), expected.dq.values());
  EXPECT_EQ(got.dk.values(), expected.dk.values());
  EXPECT_EQ(got.dv.values(), expected.dv.values());
}

template <class T>
void append_bits(std::vector<uint64_t>& bits, const std::vector<T>& values) {
  for (const T value : values) {
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof(T));
    bits.push_back(word);
  }
}

/// Everything forward, backward and an observer give, as bits.
std::vector<uint64_t> everything(const Problem& problem) {
  const Attention attention = problem.attention();
  TestObserver test_observer(attention, false, 5);
  const Answers<float> a = solve(attention, problem.dout.view(),
                                 {.at_zero_gates = true, .observer = &test_observer.observer});
  std::vector<uint64_t> bits;
  for (const auto* array : {&a.out, &a.dq, &a.dk, &a.dv}) append_bits(bits, array->values());
  for (const auto* array : {&a.lse, &a.dgates, &a.dtable}) append_bits(bits, array->values());
  append_bits(bits, a.dbias.values());
  append_bits(bits, a.dsinks.values());
  if (!problem.spec.sinks) {
    Array<double, 2> js({problem.spec.heads, problem.spec.heads});
    attention_js(attention, a.lse.view(), js.view());
    append_bits(bits, js.values());
  }
  std::vector<int64_t> rows(problem.rows());
  std::iota(rows.begin(), rows.end(), 0);
  append_bits(bits, attention_maps(attention, rows).weights);
  append_bits(bits, test_observer.largest);
  append_bits(bits, test_observer.largest_kept);
  append_bits(bits, test_observer.given_weight);
  append_bits(bits, test_observer.correlation);
  for (const HeadStatistics& head : test_observer.observer.heads) {
    std::vector<RunningMean> running_means = {
        head.entropy,         head.entropy_ratio, head.confidence,  head.mass_first,
        head.mass_last,       head.mass_given,    head.distance,    head.mass_previous,
        head.mass_self,       head.mass_next,     head.mass_window, head.mass_key_set[0],
        head.mass_key_set[1], head.mass_sink};
    running_means.insert(running_means.end(), head.offset_share.begin(), head.offset_share.end());
    for (const RunningMean& running_mean : running_means) {
      append_bits(bits, std::vector{running_mean.sum});
      append_bits(bits, std::vector{running_mean.n});
    }
  }
  return bits;
}

TEST(AttentionProperties, TheSameBitsForAnyNumberOfThreads) {
  const std::vector<Spec> specs = {
      {.sequences = {{300, 300}, {40, 40}, {1, 1}},
       .heads = 6,
       .kv_heads = 3,
       .width = 16,
       .kv_head = {0, 0, 0, 1, 2, 2},
       .mask = {.causal = true},
       .dropout = 0.1f,
       .table = true,
       .gates = GateScope::kHead,
       .some_gates_zero = true},
      {.sequences = {{130, 600}},
       .heads = 4,
       .kv_heads = 1,
       .softcap = 5,
       .head_dropout = 0.3f,
       .positions = true,
       .gates = GateScope::kRow},
      {.sequences = {{130, 600}, {20, 20}},
       .heads = 4,
       .kv_heads = 2,
       .mask = {.causal = true},
       .dropout = 0.2f,
       .bias = true,
       .shared_bias = true,
       .sinks = true},
      {.sequences = {{1, 900}, {1, 30}}, .heads = 2, .kv_heads = 1, .width = 32}};
  const int before = threads();
  for (const Spec& spec : specs) {
    const Problem problem(spec);
    set_threads(1);
    const std::vector<uint64_t> expected = everything(problem);
    for (const int count : {2, 3, 7}) {
      set_threads(count);
      for (int again = 0; again < 2; ++again) {
        EXPECT_TRUE(everything(problem) == expected) << count << " threads, " << spec.text();
      }
    }
  }
  set_threads(before);
}

}  // namespace
}  // namespace headwise::tests
