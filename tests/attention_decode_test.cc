// Token by token through the key/value cache equals causal attention over the whole sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "headwise/core/error.h"
#include "headwise/kernels/kv_cache.h"
#include "headwise/kernels/simd.h"
#include "kernels/attention_bounds.h"
#include "kernels/attention_testing.h"

namespace headwise::tests {
namespace {

class AttentionDecode : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { set_simd_target(GetParam()); }
  void TearDown() override { set_simd_target(""); }
};

/// Rows [begin, end) of every sequence, gathered one sequence after the other.
struct Rows {
  std::vector<int64_t> offsets{0}, from;

  Rows(const std::vector<int64_t>& starts, int64_t begin, int64_t end) {
    for (size_t b = 0; b + 1 < starts.size(); ++b) {
      for (int64_t t = starts[b] + begin; t < std::min(starts[b] + end, starts[b + 1]); ++t) {
        from.push_back(t);
      }
      offsets.push_back(static_cast<int64_t>(from.size()));
    }
  }

  Array<float, 3> of(const Array<float, 3>& all) const {
    const View<float, 3> view = all.view();
    Array<float, 3> part({static_cast<int64_t>(from.size()), view.extent(1), view.extent(2)});
    for (size_t t = 0; t < from.size(); ++t) {
      for (int64_t h = 0; h < view.extent(1); ++h) {
        for (int64_t d = 0; d < view.extent(2); ++d) part.view()(t, h, d) = view(from[t], h, d);
      }
    }
    return part;
  }
};

/// Feeds the sequences in pieces of the given sizes and compares each piece with the whole.
void expect_decoded(const Spec& spec, const std::vector<int64_t>& pieces) {
  const Problem problem(spec);
  const Attention whole = problem.attention();
  const Answers<double> expected = solve_ref(whole, problem.dout.view());
  const Bounds bounds = attention_bounds(whole, problem.dout.view());
  int64_t longest = 0;
  for (const auto& s : spec.sequences) longest = std::max(longest, s.keys);
  KvCache cache({.sequences = std::ssize(spec.sequences),
                 .capacity = longest + 3,
                 .kv_heads = spec.kv_heads,
                 .head_dim = spec.width,
                 .value_dim = spec.value_width});
  int64_t done = 0;
  for (size_t step = 0; done < longest; ++step) {
    const int64_t piece = pieces[std::min(step, pieces.size() - 1)];
    const Rows rows(problem.q_offsets, done, done + piece);
    done += piece;
    const Array<float, 3> q = rows.of(problem.q), k = rows.of(problem.k), v = rows.of(problem.v);
    cache.append(k.view(), v.view(), rows.offsets);
    Attention now = whole;
    now.q = q.view();
    now.k = {}, now.v = {}, now.k_offsets = {};
    now.q_offsets = rows.offsets;
    Array<float, 3> out({q.view().extent(0), spec.heads, spec.value_width});
    Array<float, 2> lse({q.view().extent(0), spec.heads});
    attention_decode(now, cache, out.view(), lse.view());
    for (size_t t = 0; t < rows.from.size(); ++t) {
      for (int64_t h = 0; h < spec.heads; ++h) {
        ASSERT_NEAR(lse.view()(t, h), expected.lse.view()(rows.from[t], h), bounds.lse);
        for (int64_t d = 0; d < spec.value_width; ++d) {
          ASSERT_NEAR(out.view()(t, h, d), expected.out.view()(rows.from[t], h, d),
                      bounds.output * bounds.absolute.out.view()(rows.from[t], h, d) + kFlushed)
              << "row " << rows.from[t] << " head " << h << " of " << spec.text();
        }
      }
    }
  }
  for (size_t b = 0; b < spec.sequences.size(); ++b) {
    EXPECT_EQ(cache.lengths()[b], spec.sequences[b].keys);
  }
}

TEST_P(AttentionDecode, TokenByToken) {
  expect_decoded({.sequences = {{20, 20}, {7, 7}, {1, 1}}, .mask = {.causal = true}}, {1});
}

TEST_P(AttentionDecode, PromptThenTokens) {
  expect_decoded({.sequences = {{290, 290}, {300, 300}},
                  .heads = 4,
                  .kv_heads = 1,
                  .width = 32,
                  .value_width = 20,
                  .mask = {.causal = true}},
                 {250, 3, 1});
}

TEST_P(AttentionDecode, GroupedHeadsWindowAlibi) {
  expect_decoded({.sequences = {{40, 40}, {33, 33}},
                  .heads = 6,
                  .kv_heads = 3,
                  .kv_head = {0, 0, 0, 1, 2, 2},
                  .mask = {.causal = true, .left = 9},
                  .alibi = true},
                 {5, 1});
}

TEST_P(AttentionDecode, RelativeBiasAndSoftcap) {
  expect_decoded({.sequences = {{30, 30}},
                  .heads = 4,
                  .kv_heads = 2,
                  .mask = {.causal = true},
                  .softcap = 3,
                  .table = true},
                 {1});
}

TEST_P(AttentionDecode, OneWideHead) {
  expect_decoded({.sequences = {{12, 12}, {270, 270}},
                  .heads = 1,
                  .kv_heads = 1,
                  .width = 512,
                  .value_width = 300,
                  .mask = {.causal = true}},
                 {260, 3, 1});
}

INSTANTIATE_TEST_SUITE_P(Simd, AttentionDecode, ::testing::ValuesIn(simd_targets()),
                         [](const auto& target) { return target.param; });

float key_at(const KvCache& cache, int64_t b, int64_t row) {
  return cache.k()(cache.offsets()[b] + row, 0, 0);
}

/// One head of width 1; `rows[b]` are the new keys of sequence b.
void append(KvCache& cache, const std::vector<std::vector<float>>& rows) {
  std::vector<float> values;
  std::vector<int64_t> offsets{0};
  for (const auto& sequence : rows) {
    values.insert(values.end(), sequence.begin(), sequence.end());
    offsets.push_back(static_cast<int64_t>(values.size()));
  }
  const View<const float, 3> view(values.data(), {offsets.back(), 1, 1});
  cache.append(view, view, offsets);
}

TEST(KvCache, ReordersAsIfAllAtOnce) {
  KvCache cache({.sequences = 3, .capacity = 4, .kv_heads = 1, .head_dim = 1, .value_dim = 1});
  append(cache, {{1, 2}, {3}, {4, 5, 6}});
  cache.reorder(std::vector<int64_t>{1, 2, 1});
  EXPECT_EQ(cache.lengths()[0], 1);
  EXPECT_EQ(cache.lengths()[1], 3);
  EXPECT_EQ(cache.lengths()[2], 1);
  EXPECT_EQ(key_at(cache, 0, 0), 3);
  EXPECT_EQ(key_at(cache, 1, 2), 6);
  EXPECT_EQ(key_at(cache, 2, 0), 3);
  append(cache, {{7}, {8}, {}});
  EXPECT_EQ(key_at(cache, 0, 1), 7);
  EXPECT_EQ(key_at(cache, 1, 3), 8);
  EXPECT_EQ(cache.lengths()[2], 1);
}

TEST(KvCache, RefusesWhatDoesNotFit) {
  KvCache cache({.sequences = 2, .capacity = 2, .kv_heads = 1, .head_dim = 1, .value_dim = 1});
  append(cache, {{1, 2}, {}});
  EXPECT_THROW(append(cache, {{3}, {4}}), Error);
  EXPECT_EQ(cache.lengths()[0], 2) << "a refused append changes nothing";
  EXPECT_EQ(cache.lengths()[1], 0);
  EXPECT_THROW(append(cache, {{3}}), Error) << "offsets for one sequence of two";
  EXPECT_THROW(cache.reorder(std::vector<int64_t>{0, 2}), Error);
  EXPECT_THROW(cache.reorder(std::vector<int64_t>{0}), Error);
  const std::vector<float> wide(4);
  const View<const float, 3> k(wide.data(), {1, 1, 2});
  EXPECT_THROW(cache.append(k, k, std::vector<int64_t>{0, 0, 1}), Error);
}

}  // namespace
}  // namespace headwise::tests
