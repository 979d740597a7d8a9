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
  const AttentionPlan plan(attention);
  check_view("lse", lse, {plan.T, plan.H}, false);
  check_view("the sums", sums, {plan.H, plan.H}, false);
  check_lse(plan, lse);
  constexpr int64_t kRowsPerItem = 16;
  std::vector<JsItem> items;
  int64_t rows = 0;
  for (int64_t b = 0; b < plan.B; ++b) {
    const SequenceRows& sequence = plan.sequences[b];
    for (int64_t i = 0; i < sequence.q_real; ++i) {
      rows += !plan.visible(sequence, plan.position(sequence, i)).empty();
    }
    for (int64_t i = 0; i < sequence.q_real; i += kRowsPerItem) {
      items.push_back({b, i, std::min(i + kRowsPerItem, sequence.q_real)});
    }
  }
  // A few items at a time, added up in their order.
  const int64_t at_once =
      std::clamp<int64_t>((1 << 20) / std::max<int64_t>(1, plan.H * plan.H), 2, 64);
  std::vector<double> parts(at_once * plan.H * plan.H);
  for (int64_t begin = 0; begin < static_cast<int64_t>(items.size()); begin += at_once) {
    const int64_t batch = std::min<int64_t>(at_once, static_cast<int64_t>(items.size()) - begin);
    std::fill(parts.begin(), parts.end(), 0.0);
    parallel_for(batch, [&](int64_t i) {
      HWY_DYNAMIC_DISPATCH(js_item)
      (plan, items[begin + i], lse, parts.data() + i * plan.H * plan.H);
    });
    for (int64_t i = 0; i < batch; ++i) {
      for (int64_t a = 0; a < plan.H; ++a) {
        for (int64_t b = a + 1; b < plan.H; ++b) {
          const double part = parts[(i * plan.H + a) * plan.H + b];
          sums(a, b) += part;
          sums(b, a) += part;
        }
      }
    }
  }
  return rows;
}

}  // namespace headwise
#endif
