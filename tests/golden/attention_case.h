// A golden case of attention.golden or statistics.golden as an attention problem.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "golden/golden.h"
#include "headwise/kernels/attention.h"
#include "headwise/kernels/attention_observer.h"

namespace headwise::golden {

/// Owns what a case lists as 64-bit integers and the kernel wants otherwise.
class AttentionCase {
 public:
  explicit AttentionCase(const Case& one) : case_(one) {
    for (const char* name : {"q_offsets", "k_offsets", "q_lengths", "k_lengths", "positions"}) {
      lists_[name] = one.list(name);
    }
    const auto narrow = [&one](const char* name) {
      const std::vector<int64_t> list = one.list(name);
      return std::vector<int32_t>(list.begin(), list.end());
    };
    kv_head_ = narrow("kv_head");
    buckets_ = narrow("buckets");
  }
  AttentionCase(const AttentionCase&) = delete;

  Attention attention() const {
    Attention a{.q = view("q"), .k = view("k"), .v = view(case_.has("v") ? "v" : "k")};
    a.q_offsets = lists_.at("q_offsets");
    a.k_offsets = lists_.at("k_offsets");
    a.q_lengths = lists_.at("q_lengths");
    a.k_lengths = lists_.at("k_lengths");
    a.positions = lists_.at("positions");
    a.kv_head = kv_head_;
    const std::vector<int64_t> mask = case_.list("mask");
    a.mask = {.causal = mask[0] != 0, .left = mask[1], .right = mask[2]};
    if (case_.numbers.contains("scale")) a.scale = static_cast<float>(case_.numbers.at("scale"));
    if (case_.numbers.contains("softcap")) {
      a.softcap = static_cast<float>(case_.numbers.at("softcap"));
    }
    if (case_.has("slopes")) a.alibi_slopes = case_.tensor("slopes").values;
    if (case_.has("table")) {
      a.relative_bias = {.table = case_.tensor("table").view<2>(), .buckets = buckets_};
    }
    if (case_.has("gates")) {
      a.gates = case_.tensor("gates").view<2>();
      a.gate_scope = static_cast<GateScope>(case_.list("gate_scope")[0]);
    }
    return a;
  }

 private:
  View<const float, 3> view(const char* name) const { return case_.tensor(name).view<3>(); }

  const Case& case_;
  std::map<std::string, std::vector<int64_t>> lists_;
  std::vector<int32_t> kv_head_, buckets_;
};

inline void expect_running_mean(const Case& one, const std::string& name, size_t head,
                                const RunningMean& got, double tolerance) {
  if (!one.has(name)) {
    EXPECT_EQ(got.n, 0) << name;
    return;
  }
  ASSERT_EQ(got.n, one.list(name + "_n")[head]) << name << " of head " << head;
  if (got.n == 0) return;
  const double expected = one.tensor(name).values[head];
  EXPECT_NEAR(got.mean(), expected, tolerance * (1 + std::abs(expected)))
      << name << " of head " << head;
}

/// The means of every statistic, and over how many rows they were taken.
inline void expect_statistics(const Case& one, const std::vector<HeadStatistics>& heads,
                              double tolerance) {
  for (size_t h = 0; h < heads.size(); ++h) {
    const HeadStatistics& s = heads[h];
    const auto expect = [&](const std::string& name, const RunningMean& got) {
      expect_running_mean(one, name, h, got, tolerance);
    };
    expect("entropy", s.entropy);
    expect("entropy_ratio", s.entropy_ratio);
    expect("confidence", s.confidence);
    expect("mass_first", s.mass_first);
    expect("mass_last", s.mass_last);
    expect("distance", s.distance);
    expect("mass_previous", s.mass_previous);
    expect("mass_self", s.mass_self);
    expect("mass_next", s.mass_next);
    expect("mass_window", s.mass_window);
    expect("mass_diagonal", s.mass_diagonal);
    for (size_t g = 0; g < s.mass_key_set.size(); ++g) {
      expect("mass_key_set_" + std::to_string(g), s.mass_key_set[g]);
    }
    for (size_t d = 0; d < s.offset_share.size(); ++d) {
      expect("offset_share_" + std::to_string(d), s.offset_share[d]);
    }
  }
}

/// An observer of a case of statistics.golden.
struct CaseObserver {
  explicit CaseObserver(const Case& one) {
    for (const int64_t member : one.list("key_sets")) sets.push_back(member != 0);
    observer.cross = one.list("cross")[0] != 0;
    observer.key_sets = {sets.data(), {2, static_cast<int64_t>(sets.size()) / 2}};
  }
  CaseObserver(const CaseObserver&) = delete;

  std::vector<uint8_t> sets;
  AttentionObserver observer;
};

}  // namespace headwise::golden
