// Attention weights after the fact: maps of chosen rows, and divergences between heads.
#include "kernels/attention_weights.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention_weights.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention_weights-inl.h"

#if HWY_ONCE

#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/core/parallel.h"
#include "kernels/attention_checks.h"

namespace headwise {
namespace {

HWY_EXPORT(map_item);
HWY_EXPORT(js_item);

/// The sequence of every row asked for.
std::vector<int64_t> sequences_of(const AttentionPlan& plan, std::span<const int64_t> rows) {
  const auto& offsets = plan.problem.q_offsets;
  std::vector<int64_t> sequences;
  sequences.reserve(rows.size());
  for (const int64_t t : rows) {
    if (t < 0 || t >= plan.T) {
      throw Error({.what = "attention_maps: a row is out of range",
                   .got = fmt::format("{}", t),
                   .expected = fmt::format("0 to {}", plan.T - 1)});
    }
    sequences.push_back(std::upper_bound(offsets.begin(), offsets.end(), t) - offsets.begin() - 1);
  }
  return sequences;
}

void check_lse(const AttentionPlan& plan, const View<const float, 2>& lse) {
  for (const SequenceRows& sequence : plan.sequences) {
    for (int64_t i = 0; i < sequence.q_real; ++i) {
      if (plan.visible(sequence, plan.position(sequence, i)).empty()) continue;
      for (int64_t h = 0; h < plan.H; ++h) {
        if (!std::isinf(lse(sequence.q_begin + i, h))) continue;
        throw Error({.what = "attention_js: head has no log-sum-exp",
                     .where = fmt::format("row {}, head {}", sequence.q_begin + i, h),
                     .got = "-infinity",
                     .expected = "a number",
                     .hint = "run forward with an observer or without gates of 0"});
      }
    }
  }
}

void check_same_sequences(const AttentionPlan& first, const AttentionPlan& other) {
  bool same = first.sequences.size() == other.sequences.size();
  for (size_t b = 0; same && b < first.sequences.size(); ++b) {
    const SequenceRows &x = first.sequences[b], &y = other.sequences[b];
    same = x.q_begin == y.q_begin && x.q_real == y.q_real && x.k_real == y.k_real;
  }
  if (same && first.T == other.T) return;
  throw Error({.what = "attention_js: attentions have other rows or keys than the first",
               .got = fmt::format("{} sequences, {} rows, {} keys", other.B, other.T, other.S),
               .expected = fmt::format("{} sequences, {} rows, {} keys, of the same lengths",
                                       first.B, first.T, first.S)});
}

/// rows(i, k) += the rows that see a key in attentions i and k.
void count_rows(const std::vector<JsHeads>& attentions, const View<int64_t, 2>& rows) {
  std::vector<uint8_t> sees(attentions.size());
  const AttentionPlan& any = *attentions.front().plan;
  for (int64_t b = 0; b < any.B; ++b) {
    for (int64_t r = 0; r < any.sequences[b].q_real; ++r) {
      for (size_t i = 0; i < attentions.size(); ++i) {
        const AttentionPlan& plan = *attentions[i].plan;
        sees[i] = !plan.visible(plan.sequences[b], plan.position(plan.sequences[b], r)).empty();
      }
      for (size_t i = 0; i < attentions.size(); ++i) {
        for (size_t k = 0; k < attentions.size(); ++k) rows(i, k) += sees[i] && sees[k];
      }
    }
  }
}

}  // namespace

AttentionMaps attention_maps(const Attention& attention, std::span<const int64_t> rows) {
  const AttentionPlan plan(attention);
  const std::vector<int64_t> sequences = sequences_of(plan, rows);
  AttentionMaps maps;
  maps.heads = plan.H;
  maps.offsets.push_back(0);
  for (const int64_t b : sequences) {
    for (int64_t h = 0; h < plan.H; ++h) {
      maps.offsets.push_back(checked_add(maps.offsets.back(), plan.sequences[b].k_rows));
    }
  }
  maps.weights.resize(maps.offsets.back());

  // One item for every key/value head and run of rows of one sequence; padding rows see nothing.
  constexpr int64_t kRowsPerItem = 256;
  std::vector<MapItem> items;
  std::vector<std::vector<float*>> places;
  const int64_t count = static_cast<int64_t>(rows.size());
  for (int64_t begin = 0, end; begin < count; begin = end) {
    const SequenceRows& sequence = plan.sequences[sequences[begin]];
    const auto real = [&](int64_t i) { return rows[i] - sequence.q_begin < sequence.q_real; };
    end = begin + 1;
    if (!real(begin)) continue;
    while (end < count && end - begin < kRowsPerItem && sequences[end] == sequences[begin] &&
           real(end)) {
      ++end;
    }
    for (int64_t kv = 0; kv < plan.K; ++kv) {
      std::vector<float*>& to = places.emplace_back();
      for (int64_t i = begin; i < end; ++i) {
        for (const int32_t h : plan.query_heads[kv]) {
          to.push_back(maps.weights.data() + maps.offsets[i * plan.H + h]);
        }
      }
      items.push_back({sequences[begin], kv, rows.subspan(begin, end - begin), {}});
    }
  }
  for (size_t i = 0; i < items.size(); ++i) items[i].weights = places[i];
  parallel_for(static_cast<int64_t>(items.size()), [&](int64_t i) {
    HWY_DYNAMIC_DISPATCH(map_item)(plan, items[i]);
  });
  return maps;
}

int64_t attention_js(const Attention& attention, View<const float, 2> lse, View<double, 2> sums) {
  int64_t rows = 0;
  const AttendedHeads heads{.attention = attention, .lse = lse};
  attention_js({&heads, 1}, sums, View<int64_t, 2>(&rows, {1, 1}));
  return rows;
}

void attention_js(std::span<const AttendedHeads> attentions, View<double, 2> sums,
                  View<int64_t, 2> rows) {
  std::vector<AttentionPlan> plans;
  plans.reserve(attentions.size());
  std::vector<JsHeads> parts;
  int64_t heads = 0;
  for (const AttendedHeads& one : attentions) {
    const AttentionPlan& plan = plans.emplace_back(one.attention);
    if (plan.has_sinks()) {
      throw Error({.what = "attention_js: the attention has sinks",
                   .got = "weights that sum to less than 1",
                   .expected = "an attention without sinks"});
    }
    check_view("lse", one.lse, {plan.T, plan.H}, false);
    check_lse(plan, one.lse);
    check_same_sequences(plans.front(), plan);
    parts.push_back({.plan = &plan, .lse = one.lse, .first = heads});
    heads += plan.H;
  }
  check_view("the sums", sums, {heads, heads}, false);
  check_view("the rows", rows, {std::ssize(parts), std::ssize(parts)}, false);
  if (parts.empty()) return;
  count_rows(parts, rows);

  // Few rows where heads are many: a tile holds the weights of them all.
  const int64_t rows_per_item = std::clamp<int64_t>(256 / std::max<int64_t>(1, heads), 2, 16);
  std::vector<JsItem> items;
  for (int64_t b = 0; b < plans.front().B; ++b) {
    const int64_t real = plans.front().sequences[b].q_real;
    for (int64_t i = 0; i < real; i += rows_per_item) {
      items.push_back({b, i, std::min(i + rows_per_item, real)});
    }
  }
  // A few items at a time, added up in their order.
  const int64_t at_once =
      std::clamp<int64_t>((1 << 20) / std::max<int64_t>(1, heads * heads), 2, 64);
  std::vector<double> of_items(at_once * heads * heads);
  for (int64_t begin = 0; begin < std::ssize(items); begin += at_once) {
    const int64_t batch = std::min<int64_t>(at_once, std::ssize(items) - begin);
    std::fill(of_items.begin(), of_items.end(), 0.0);
    parallel_for(batch, [&](int64_t i) {
      HWY_DYNAMIC_DISPATCH(js_item)
      (parts, heads, items[begin + i], of_items.data() + i * heads * heads);
    });
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t a = 0; a < heads; ++a) {
        for (int64_t b = a + 1; b < heads; ++b) {
          const double part = of_items[(i * heads + a) * heads + b];
          sums(a, b) += part;
          sums(b, a) += part;
        }
      }
    }
  }
}

}  // namespace headwise
#endif
