// Weights of chosen rows, stored (maps) or compared between heads (Jensen-Shannon divergence).
// Included once per SIMD target.
#if defined(HEADWISE_ATTENTION_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_WEIGHTS_INL_H_
#undef HEADWISE_ATTENTION_WEIGHTS_INL_H_
#else
#define HEADWISE_ATTENTION_WEIGHTS_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "kernels/attention-inl.h"
#include "kernels/attention_weights.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

/// The scores of one block of rows, a block of keys at a time.
class RowScores {
 public:
  RowScores(const AttentionPlan& plan, int64_t b, int64_t kv_head, Scratch& scratch)
      : plan_(plan),
        b_(b),
        kv_head_(kv_head),
        stride_(round_up(plan.D, kLanes)),
        q_(scratch.take<float>(kRowBlock * stride_)),
        keys_(scratch.take<float>(kKeyBlock * plan.D)) {}

  void load_keys(int64_t first, int64_t count) {
    pack_transposed(keys_from(plan_.problem.k, plan_.sequences[b_], kv_head_, first), count,
                    plan_.D, keys_);
  }

  /// s[row][key], softcap and bias included; right only where a row sees the key.
  void score(const RowBlock& rows, int64_t first, int64_t count, float* s) {
    const View<const float, 3>& q = plan_.problem.q;
    for (int64_t r = 0; r < rows.count; ++r) {
      const Row& row = rows.rows[r];
      copy_row({&q(row.t, row.head, 0), 0, q.stride(2)}, 0, plan_.D, plan_.scale * kLog2E,
               q_ + r * stride_, stride_);
    }
    RowPrefetcher nothing;
    score_tiles<false>(rows, q_, stride_, keys_, plan_.D, first, count, s, nothing);
    for (int64_t r = 0; r < rows.count; ++r) {
      const Interval keys = within(rows.rows[r].keys, first, count);
      cap_and_bias(plan_, b_, rows.rows[r], first, keys, s + r * kScoreStride);
    }
  }

 private:
  const AttentionPlan& plan_;
  int64_t b_, kv_head_, stride_;
  float *q_, *keys_;
};

/// Scores in base 2 become weights that, with that of a sink (-infinity: none), sum to 1.
HWY_INLINE void softmax_in_place(float* s, int64_t count, float sink) {
  const float largest = std::max(max_row(s, count), sink);
  const Vec maximum = hn::Set(F32(), largest);
  double sum = sum_row(count, [&](int64_t j, int64_t n) HEADWISE_LAMBDA {
    const Vec e = keep_n(exp2_nonpositive(hn::Sub(load_n(s + j, n), maximum)), n);
    store_n(e, s + j, n);
    return e;
  });
  sum += std::exp2(sink - largest);
  const Vec inverse = hn::Set(F32(), static_cast<float>(1 / sum));
  for_vectors(count, [&](int64_t j, int64_t n) HEADWISE_LAMBDA {
    store_n(hn::Mul(load_n(s + j, n), inverse), s + j, n);
  });
}

void map_item(const AttentionPlan& plan, const MapItem& item) {
  Scratch scratch;
  const SequenceRows& sequence = plan.sequences[item.b];
  const std::vector<int32_t>& heads = plan.query_heads[item.kv_head];
  const int64_t count = static_cast<int64_t>(item.rows.size() * heads.size());
  Row* const rows = scratch.take<Row>(count);
  for (size_t i = 0, at = 0; i < item.rows.size(); ++i) {
    for (const int32_t h : heads) {
      const int32_t position = plan.position(sequence, item.rows[i] - sequence.q_begin);
      rows[at++] = {item.rows[i], h, position, plan.visible(sequence, position), 1.0f};
    }
  }
  RowScores scores(plan, item.b, item.kv_head, scratch);
  float* const s = scratch.take<float>(kRowBlock * kScoreStride);
  Interval any;
  for (int64_t r = 0; r < count; ++r) any = any.hull(rows[r].keys);
  for (int64_t first = any.begin / kKeyBlock * kKeyBlock; first < any.end; first += kKeyBlock) {
    const int64_t keys = std::min<int64_t>(kKeyBlock, any.end - first);
    scores.load_keys(first, keys);
    for (int64_t r0 = 0; r0 < count; r0 += kRowBlock) {
      const RowBlock block(rows + r0, std::min(kRowBlock, count - r0));
      scores.score(block, first, keys, s);
      for (int64_t r = 0; r < block.count; ++r) {
        const Interval seen = within(block.rows[r].keys, first, keys);
        std::copy(s + r * kScoreStride + seen.begin, s + r * kScoreStride + seen.end,
                  item.weights[r0 + r] + first + seen.begin);
      }
    }
  }
  for (int64_t r = 0; r < count; ++r) {
    const Interval seen = rows[r].keys;
    if (seen.empty()) continue;
    const float sink = plan.has_sinks() ? plan.sink(rows[r].head) : -kInfinity;
    softmax_in_place(item.weights[r] + seen.begin, seen.end - seen.begin, sink);
  }
}

/// x log2 x, 0 at 0.
HWY_INLINE Vec x_log2_x(Vec x) {
  const F32 d;
  return hn::Mul(x, hn::Log2(d, hn::Max(x, hn::Set(d, 1e-37f))));
}

/// Weights and f(weights), f = x log2 x, of some rows on all heads, a block of keys at a time.
class JsTile {
 public:
  JsTile(std::span<const JsHeads> attentions, int64_t heads, const JsItem& item, Scratch& scratch)
      : attentions_(attentions),
        item_(item),
        count_(item.end - item.begin),
        plane_(count_ * kScoreStride),
        rows_(scratch.take<Row>(std::ssize(attentions) * count_)),
        any_(scratch.zeros<Interval>(count_)),
        p_(scratch.take<float>(plane_ * heads)),
        f_(scratch.take<float>(plane_ * heads)) {
    for (int64_t a = 0; a < std::ssize(attentions); ++a) {
      const AttentionPlan& plan = *attentions[a].plan;
      const SequenceRows& sequence = plan.sequences[item.b];
      for (int64_t r = 0; r < count_; ++r) {
        const int32_t position = plan.position(sequence, item.begin + r);
        const Interval keys = plan.visible(sequence, position);
        rows_[a * count_ + r] = {sequence.q_begin + item.begin + r, 0, position, keys, 1};
        any_[r] = any_[r].hull(keys);
      }
    }
  }

  int64_t count() const { return count_; }
  /// The keys that row r sees in an attention.
  Interval keys(int64_t attention, int64_t r) const { return rows_[attention * count_ + r].keys; }
  const float* p(int64_t head, int64_t r) const { return p_ + head * plane_ + r * kScoreStride; }
  const float* f(int64_t head, int64_t r) const { return f_ + head * plane_ + r * kScoreStride; }

  /// Zeros where a row sees no key, as far as it sees one in any attention.
  void load(int64_t first, int64_t keys) {
    for (int64_t a = 0; a < std::ssize(attentions_); ++a) {
      const AttentionPlan& plan = *attentions_[a].plan;
      for (int64_t kv = 0; kv < plan.K; ++kv) {
        Scratch inner;
        RowScores scores(plan, item_.b, kv, inner);
        scores.load_keys(first, keys);
        for (const int32_t h : plan.query_heads[kv]) load_head(a, h, first, keys, scores);
      }
    }
  }

 private:
  HWY_INLINE void load_head(int64_t attention, int32_t h, int64_t first, int64_t keys,
                            RowScores& scores) {
    const F32 d;
    const JsHeads& heads = attentions_[attention];
    Row* const rows = rows_ + attention * count_;
    for (int64_t r = 0; r < count_; ++r) rows[r].head = h;
    float* const s = p_ + (heads.first + h) * plane_;
    float* const f = f_ + (heads.first + h) * plane_;
    scores.score(RowBlock(rows, count_), first, keys, s);
    for (int64_t r = 0; r < count_; ++r) {
      const int64_t at = r * kScoreStride;
      const Interval seen = within(rows[r].keys, first, keys);
      const Vec total = hn::Set(d, heads.lse(rows[r].t, h) * kLog2E);
      for_each_vector(seen, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
        Vec x = exp2_nonpositive(hn::Sub(hn::Load(d, s + at + j), total));
        if constexpr (masked()) x = hn::IfThenElseZero(inside(seen, j), x);
        hn::Store(x, d, s + at + j);
        hn::Store(x_log2_x(x), d, f + at + j);
      });
      const Interval any = within(any_[r], first, keys);
      clear_between(s + at, any, seen);
      clear_between(f + at, any, seen);
    }
  }

  std::span<const JsHeads> attentions_;
  const JsItem& item_;
  int64_t count_, plane_;
  Row* rows_;      // [attentions, count]
  Interval* any_;  // [count]: keys that a row sees in any attention
  float *p_, *f_;  // [heads, count, kScoreStride]
};

/// The divergence of two heads on the keys of a block, in bits. With m = (p + q) / 2 each key gives
/// (f(p) + f(q)) / 2 - f(m).
HWY_INLINE float js_row(const JsTile& tile, int64_t a, int64_t b, int64_t r, Interval keys) {
  const F32 d;
  const float *pa = tile.p(a, r), *pb = tile.p(b, r), *fa = tile.f(a, r), *fb = tile.f(b, r);
  Vec sum = hn::Zero(d);
  for_each_vector(keys, [&](int64_t j, auto) HEADWISE_LAMBDA {
    const Vec half = hn::Set(d, 0.5f);
    const Vec m = hn::Mul(half, hn::Add(hn::Load(d, pa + j), hn::Load(d, pb + j)));
    const Vec mean = hn::Mul(half, hn::Add(hn::Load(d, fa + j), hn::Load(d, fb + j)));
    sum = hn::Add(sum, hn::Sub(mean, x_log2_x(m)));
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// sums[a * heads + b], a < b, += the divergences of the item's rows that see a key in both.
void js_item(std::span<const JsHeads> attentions, int64_t heads, const JsItem& item, double* sums) {
  Scratch scratch;
  JsTile tile(attentions, heads, item, scratch);
  const int64_t all_keys = attentions.front().plan->sequences[item.b].k_real;
  const auto end = [&](int64_t i) { return attentions[i].first + attentions[i].plan->H; };
  for (int64_t first = 0; first < all_keys; first += kKeyBlock) {
    const int64_t keys = std::min(kKeyBlock, all_keys - first);
    tile.load(first, keys);
    for (int64_t i = 0; i < std::ssize(attentions); ++i) {
      for (int64_t k = i; k < std::ssize(attentions); ++k) {
        for (int64_t r = 0; r < tile.count(); ++r) {
          if (tile.keys(i, r).empty() || tile.keys(k, r).empty()) continue;
          const Interval seen = within(tile.keys(i, r).hull(tile.keys(k, r)), first, keys);
          if (seen.empty()) continue;
          for (int64_t a = attentions[i].first; a < end(i); ++a) {
            for (int64_t b = std::max(a + 1, attentions[k].first); b < end(k); ++b) {
              sums[a * heads + b] += double{kLn2} * js_row(tile, a, b, r, seen);
            }
          }
        }
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif
