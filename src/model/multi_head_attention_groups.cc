// A layer of attention as groups of heads: the learned ones, and runs of equal fixed patterns.
#include <algorithm>

#include "headwise/core/seed.h"
#include "headwise/core/shape.h"
#include "headwise/model/multi_head_attention.h"

namespace headwise {
namespace {

constexpr float kZero = 0;

/// Queries and keys of heads without any: all scores are 0, so that the mask alone decides.
View<const float, 3> zeros(int64_t rows, int64_t heads) {
  return {&kZero, {rows, heads, 1}, {0, 0, 0}};
}

template <class T>
View<T, 2> columns_of(View<T, 2> all, const HeadGroup& group) {
  if (all.data() == nullptr) return all;
  return {all.data() + group.first * all.stride(1), {all.extent(0), group.count}, all.strides()};
}

template <class T>
View<T, 3> heads(View<T, 3> all, int64_t first, int64_t count) {
  if (all.data() == nullptr) return all;
  return {all.data() + first * all.stride(1), {all.extent(0), count, all.extent(2)}, all.strides()};
}

/// Every head has a key/value head of its own, in the same order.
bool ungrouped(const MultiHeadAttentionShape& s) {
  if (s.K != s.H) return false;
  for (size_t h = 0; h < s.kv_head.size(); ++h) {
    if (s.kv_head[h] != static_cast<int32_t>(h)) return false;
  }
  return true;
}

void add(View<const float, 3> from, View<float, 3> to) {
  for (int64_t t = 0; t < to.extent(0); ++t) {
    for (int64_t h = 0; h < to.extent(1); ++h) {
      for (int64_t c = 0; c < to.extent(2); ++c) to(t, h, c) += from(t, h, c);
    }
  }
}

void clear(View<float, 3> x) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    for (int64_t h = 0; h < x.extent(1); ++h) std::fill_n(&x(t, h, 0), x.extent(2), 0.f);
  }
}

/// Groups do not drop the same weights and heads.
uint64_t seed_of(uint64_t seed, int64_t first_head) {
  if (first_head == 0) return seed;
  return derived_seed(seed, static_cast<uint64_t>(first_head), 0, 0xf17ed);
}

/// The part of an observer that sees one group, and its way back.
class GroupObserver {
 public:
  GroupObserver(AttentionObserver* all, const HeadGroup& group) : all_(all), group_(group) {
    if (all == nullptr) return;
    part_ = *all;
    part_.heads.clear();
    if (!all->heads.empty()) {
      part_.heads.assign(all->heads.begin() + group.first,
                         all->heads.begin() + group.first + group.count);
    }
    part_.largest = columns_of(all->largest, group);
    part_.largest_kept = columns_of(all->largest_kept, group);
    part_.given_weight = columns_of(all->given_weight, group);
    part_.correlation = columns_of(all->correlation, group);
  }

  AttentionObserver* get() { return all_ == nullptr ? nullptr : &part_; }

  void give_back(std::vector<HeadStatistics>& to) {
    for (HeadStatistics& head : part_.heads) to.push_back(std::move(head));
  }

 private:
  AttentionObserver* all_;
  const HeadGroup& group_;
  AttentionObserver part_;
};

}  // namespace

std::vector<HeadGroup> MultiHeadAttention::groups(const Attention& all) const {
  const MultiHeadAttentionShape& s = shape();
  const std::span<const int32_t> kv_head = s.kv_head;
  std::vector<HeadGroup> groups;
  const auto add = [&](int64_t first, int64_t count) -> Attention& {
    HeadGroup& group = groups.emplace_back(HeadGroup{first, count, all});
    group.attention.gates = columns_of(all.gates, group);
    group.attention.seed = seed_of(all.seed, first);
    if (!kv_head.empty()) group.attention.kv_head = kv_head.subspan(first, count);
    return group.attention;
  };
  if (s.learned() > 0 || s.H == 0) {
    Attention& learned = add(0, s.learned());
    learned.v = heads(all.v, 0, s.key_heads);
  }
  for (int64_t first = s.learned(), end; first < s.H; first = end) {
    const FixedPattern& pattern = s.fixed[first - s.learned()];
    for (end = first + 1; end < s.H && s.fixed[end - s.learned()] == pattern;) ++end;
    Attention& fixed = add(first, end - first);
    if (ungrouped(s)) {
      fixed.v = heads(all.v, first, end - first);
      fixed.kv_head = {};
    }
    fixed.q = zeros(all.q.extent(0), end - first);
    fixed.k = zeros(all.v.extent(0), fixed.v.extent(1));
    fixed.mask = mask_of(pattern, all.mask.causal);
    fixed.scale = 1.f;
    fixed.softcap = 0;
    fixed.alibi_slopes = {};
    fixed.relative_bias = {};
  }
  return groups;
}

void MultiHeadAttention::attend_groups(const Attention& all, Pass& pass,
                                       AttentionObserver* observer) const {
  std::vector<HeadStatistics> seen;
  for (const HeadGroup& group : groups(all)) {
    GroupObserver part(observer, group);
    attention_forward(group.attention, heads(pass.z, group.first, group.count),
                      columns_of(pass.lse, group), part.get());
    part.give_back(seen);
  }
  if (observer != nullptr) observer->heads = std::move(seen);
}

void MultiHeadAttention::backward_groups(const Attention& all, Pass& pass,
                                         const AttentionGradients& gradients) const {
  const MultiHeadAttentionShape& s = shape();
  const View<float, 3> dv = gradients.dv;
  const bool apart = ungrouped(s);
  if (!apart && s.key_heads < s.K) clear(heads(dv, s.key_heads, s.K - s.key_heads));
  for (const HeadGroup& group : groups(all)) {
    AttentionGradients part = gradients;
    part.dgates = columns_of(gradients.dgates, group);
    const bool learned = group.first < s.learned() || s.H == 0;
    if (learned) {
      part.dv = heads(dv, 0, s.key_heads);
    } else {
      part.dq = part.dk = {};
      part.dtable = {};
      part.dv = apart ? heads(dv, group.first, group.count)
                      : View<float, 3>(pass.dvalues.at_least(checked_mul(dv.extent(0), s.K * s.Dv)),
                                       dv.shape());
    }
    attention_backward(group.attention, heads(pass.z, group.first, group.count),
                       columns_of(pass.lse, group), heads(pass.dz, group.first, group.count), part);
    if (!learned && !apart) add(part.dv, dv);
  }
}

AttentionMaps MultiHeadAttention::maps(const Attention& all, std::span<const int64_t> rows) const {
  std::vector<AttentionMaps> parts;
  for (const HeadGroup& group : groups(all)) parts.push_back(attention_maps(group.attention, rows));
  if (parts.size() == 1) return std::move(parts.front());
  AttentionMaps maps{.heads = shape().H};
  maps.offsets.push_back(0);
  for (int64_t row = 0; row < std::ssize(rows); ++row) {
    for (const AttentionMaps& part : parts) {
      for (int64_t h = 0; h < part.heads; ++h) {
        const std::span<const float> weights = part.row(row, h);
        maps.weights.insert(maps.weights.end(), weights.begin(), weights.end());
        maps.offsets.push_back(std::ssize(maps.weights));
      }
    }
  }
  return maps;
}

}  // namespace headwise
