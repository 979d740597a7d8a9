// The forward kernel. Included once per SIMD target.
#if defined(HEADWISE_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_FORWARD_INL_H_
#undef HEADWISE_ATTENTION_FORWARD_INL_H_
#else
#define HEADWISE_ATTENTION_FORWARD_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <new>

#include "kernels/attention-inl.h"
#include "kernels/attention_forward.h"
#include "kernels/attention_observe-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

/// With so few rows, keys and values are read in place instead of being packed.
constexpr int64_t kFewRows = 8;

/// A block of keys as the products want it.
struct KeyBlock {
  int64_t first, keys;
  const float* transposed;  // keys, packed
  const Operand* values;
};

/// The running softmax of an item's rows: scores so far relative to `maximum`, in base 2.
class Forward {
 public:
  Forward(const AttentionPlan& plan, const ForwardItem& item, const ForwardOutputs& outputs,
          RowPrefetcher& ahead, Scratch& scratch)
      : plan_(plan),
        b_(item.b),
        sequence_(plan.sequences[item.b]),
        kv_head_(item.kv_head),
        outputs_(outputs),
        ahead_(ahead),
        scratch_(scratch),
        q_stride_(round_up(plan.D, kLanes)),
        out_stride_(round_up(plan.Dv, kLanes)) {
    gather_rows(item);
    const int64_t padded = round_up(row_count_, kLanes) + kTileRows;  // vectors reach past a tile
    q_ = scratch.take<float>(row_count_ * q_stride_);
    out_ = scratch.zeros<float>(row_count_ * out_stride_);
    sum_ = scratch.zeros<float>(padded * kLanes);
    maximum_ = scratch.take<float>(padded);
    std::fill_n(maximum_, padded, -kInfinity);
    s_ = scratch.take<float>(kRowBlock * kScoreStride);
    const View<const float, 3>& q = plan.problem.q;
    const auto source_of_row = [&](int64_t r) {
      return Source{&q(rows_[r].t, rows_[r].head, 0), 0, q.stride(2)};
    };
    for (int64_t r = 0; r < row_count_; ++r) {
      if (r + kPrefetchAhead < row_count_)
        prefetch_row(source_of_row(r + kPrefetchAhead), 0, plan.D);
      copy_row(source_of_row(r), 0, plan.D, plan.scale * kLog2E, q_ + r * q_stride_, q_stride_);
    }
  }

  void run(HeadSums* sums) {
    if (row_count_ == 0) return;
    Interval keys;
    for (int64_t r = 0; r < row_count_; ++r) keys = keys.hull(rows_[r].keys);
    if (outputs_.observation != nullptr) {
      RowObserver observer(plan_, b_, *outputs_.observation, rows_, row_count_, scratch_);
      for_each_key_block<true>(keys, &observer);
      finish(&observer, sums);
    } else {
      for_each_key_block<false>(keys, nullptr);
      finish(nullptr, nullptr);
    }
  }

 private:
  /// The rows to compute, one head after the other; the others' results are written at once.
  void gather_rows(const ForwardItem& item) {
    const std::vector<int32_t>& heads = plan_.query_heads[kv_head_];
    rows_ = scratch_.take<Row>((item.end - item.begin) * static_cast<int64_t>(heads.size()));
    for (const int32_t h : heads) {
      for (int64_t i = item.begin; i < item.end; ++i) {
        const int64_t t = sequence_.q_begin + i;
        const float gate = plan_.gate(item.b, t, h);
        const int32_t position = plan_.position(sequence_, i);
        const Interval keys = plan_.visible(sequence_, position);
        const bool skip = gate == 0 && outputs_.observation == nullptr;
        if (i >= sequence_.q_real || keys.empty() || skip) {
          write_nothing(t, h);
        } else {
          new (rows_ + row_count_++) Row{t, h, position, keys, gate};
        }
      }
    }
  }

  void write_nothing(int64_t t, int32_t h) {
    for (int64_t c = 0; c < plan_.Dv; ++c) outputs_.out(t, h, c) = 0;
    if (outputs_.lse.data() != nullptr) outputs_.lse(t, h) = -kInfinity;
    if (outputs_.observation == nullptr) return;
    const AttentionObserver& observer = outputs_.observation->observer;
    if (observer.largest.data() != nullptr) observer.largest(t, h) = -1;
    if (observer.largest_kept.data() != nullptr) observer.largest_kept(t, h) = -1;
    if (observer.given_weight.data() != nullptr) observer.given_weight(t, h) = 0;
    if (!observer.compared.empty() && observer.compared[t] >= 0) {
      observer.correlation(observer.compared[t], h) = std::numeric_limits<float>::quiet_NaN();
    }
  }

  template <bool kObserve>
  void for_each_key_block(Interval keys, RowObserver* observer) {
    const View<const float, 3>&k = plan_.problem.k, &v = plan_.problem.v;
    const bool in_place = row_count_ <= kFewRows && k.stride(2) == 1 && v.stride(2) == 1;
    const int64_t most = in_place ? 0 : kKeyBlock;
    float* const transposed = scratch_.take<float>(most * plan_.D);
    Operand values(most, plan_.Dv, scratch_);
    for (int64_t first = keys.begin / kKeyBlock * kKeyBlock; first < keys.end; first += kKeyBlock) {
      const KeyBlock block{first, std::min<int64_t>(kKeyBlock, keys.end - first), transposed,
                           &values};
      if (!in_place) {
        pack_transposed(keys_from(k, sequence_, kv_head_, first), block.keys, plan_.D, transposed);
        values.pack(keys_from(v, sequence_, kv_head_, first), block.keys);
      }
      if constexpr (kObserve) observer->begin_keys(first, block.keys);
      for (int64_t r = 0; r < row_count_; r += kRowBlock) {
        const RowBlock rows(rows_ + r, std::min(kRowBlock, row_count_ - r));
        if (rows.any.begin < first + block.keys && rows.any.end > first) {
          step<kObserve>(rows, r, block, in_place, observer);
        }
      }
    }
  }

  /// One block of rows against one block of keys.
  template <bool kObserve>
  HWY_NOINLINE void step(const RowBlock& rows, int64_t r0, const KeyBlock& block, bool in_place,
                         RowObserver* observer) {
    HWY_ALIGN float alpha[kRowBlock + kTileRows + kLanes];
    HWY_ALIGN float row_max[kRowBlock * kLanes];
    if (in_place) {
      score_in_place(rows, r0, block);
    } else {
      score_tiles<true>(rows, q_ + r0 * q_stride_, q_stride_, block.transposed, plan_.D,
                        block.first, block.keys, s_, ahead_, row_max);
    }
    for (int64_t i = 0; i < rows.tile_count; ++i) {
      if (rows.tiles[i].sees(block.first, block.first + block.keys)) {
        softmax<kObserve>(rows, rows.tiles[i], r0, block, in_place ? nullptr : row_max, alpha,
                          observer);
      }
    }
    if (plan_.problem.dropout > 0) drop(rows, block);
    if (in_place) {
      weighted_sum_in_place(rows, r0, block, alpha);
    } else {
      weighted_sum_rows<true>(rows, s_, *block.values, block.first, block.keys, alpha,
                              out_ + r0 * out_stride_, out_stride_, ahead_);
    }
  }

  /// Scores of a tile become weights relative to the rows' maxima so far; alpha says by how much
  /// those moved.
  template <bool kObserve>
  HWY_INLINE void softmax(const RowBlock& rows, const RowTile& tile, int64_t r0,
                          const KeyBlock& block, const float* row_max, float* alpha,
                          RowObserver* observer) {
    const F32 d;
    const bool all = row_max != nullptr && block.keys % kLanes == 0 &&
                     tile.sees_all(block.first, block.first + block.keys);
    constexpr int64_t kRows = round_up(kTileRows, kLanes);
    HWY_ALIGN float maxima[kRows], delta[kRows];
    float* const before = maximum_ + r0 + tile.first;
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t r = tile.first + i;
      const float largest =
          block_maximum<kObserve>(rows.rows[r], r0 + r, block, all ? row_max + r * kLanes : nullptr,
                                  s_ + r * kScoreStride, observer);
      maxima[i] = std::max(before[i], largest);
    }
    for (int64_t i = tile.rows; i < kRows; ++i) maxima[i] = 0;
    for (int64_t i = 0; i < tile.rows; i += kLanes) {
      const Vec from = hn::LoadU(d, before + i), to = hn::Load(d, maxima + i);
      const Vec moved = hn::Max(hn::Set(d, -126.0f), hn::Sub(from, to));
      // Before its first key a row has nothing that could shrink.
      const auto same = hn::Or(hn::Eq(from, to), hn::Eq(from, hn::Set(d, -kInfinity)));
      hn::StoreU(hn::IfThenElse(same, hn::Set(d, 1.0f), exp2_nonpositive(moved)), d,
                 alpha + tile.first + i);
      hn::Store(hn::IfThenElseZero(hn::Not(same), moved), d, delta + i);
    }
    std::copy_n(maxima, tile.rows, before);
    const Interval any = within(tile.any, block.first, block.keys);
    for (int64_t i = 0; i < tile.rows; ++i) {
      const int64_t r = tile.first + i;
      exponentiate<kObserve>(rows.rows[r], r0 + r, any, block, alpha[r], delta[i],
                             s_ + r * kScoreStride, observer);
    }
    if constexpr (kObserve) {
      observer->key_sets(tile, r0 + tile.first, s_ + tile.first * kScoreStride, any, block.first);
    }
  }

  /// The largest score of a row in the block, softcap and bias now included.
  template <bool kObserve>
  HWY_INLINE float block_maximum(const Row& row, int64_t r, const KeyBlock& block,
                                 const float* row_max, float* s, RowObserver* observer) {
    const F32 d;
    const Interval keys = within(row.keys, block.first, block.keys);
    const bool adjusted = cap_and_bias(plan_, b_, row, block.first, keys, s);
    Vec largest = hn::Set(d, -kInfinity);
    if (row_max != nullptr && !adjusted) {
      largest = hn::Load(d, row_max);
    } else {
      for_each_vector(keys, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
        Vec x = hn::Load(d, s + j);
        if constexpr (masked()) x = hn::IfThenElse(inside(keys, j), x, hn::Set(d, -kInfinity));
        largest = hn::Max(largest, x);
      });
    }
    const float maximum = hn::GetLane(hn::MaxOfLanes(d, largest));
    if constexpr (kObserve) {
      if (maximum > maximum_[r]) observer->new_maximum(r, s, keys, block.first, maximum);
      observer->scores(r, s, keys, block.first, maximum);
      observer->prefetch(r, keys, block.first);
    }
    return maximum;
  }

  template <bool kObserve>
  HWY_INLINE void exponentiate(const Row& row, int64_t r, Interval any, const KeyBlock& block,
                               float alpha, float delta, float* s, RowObserver* observer) {
    const F32 d;
    const Interval keys = within(row.keys, block.first, block.keys);
    const Vec maximum = hn::Set(d, maximum_[r]);
    const float* const line = kObserve ? observer->distance_line(r, block.first) : nullptr;
    Vec total = hn::Zero(d), entropy = hn::Zero(d), distance = hn::Zero(d);
    for_each_vector(keys, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
      Vec t = hn::Sub(hn::Load(d, s + j), maximum);
      Vec e = exp2_nonpositive(t);
      if constexpr (masked()) e = hn::IfThenElseZero(inside(keys, j), e);
      hn::Store(e, d, s + j);
      total = hn::Add(total, e);
      if constexpr (kObserve) {
        t = hn::Max(hn::Set(d, -126.0f), t);
        if constexpr (masked()) t = hn::IfThenElseZero(inside(keys, j), t);
        entropy = hn::MulAdd(e, t, entropy);
        distance = hn::MulAdd(e, hn::LoadU(d, line + j), distance);
      }
    });
    clear_between(s, any, keys);
    float* const sum = sum_ + r * kLanes;
    if constexpr (kObserve) {
      if (alpha != 1) observer->rescale(r, alpha, delta, sum);
      observer->weights(r, s, keys, block.first, entropy, distance);
    }
    hn::Store(hn::MulAdd(hn::Load(d, sum), hn::Set(d, alpha), total), d, sum);
  }

  HWY_NOINLINE void drop(const RowBlock& rows, const KeyBlock& block) {
    const F32 d;
    WeightDropout dropout(plan_.problem);
    for (int64_t r = 0; r < rows.count; ++r) {
      const Row& row = rows.rows[r];
      float* const s = s_ + r * kScoreStride;
      const Interval keys = within(row.keys, block.first, block.keys);
      if (keys.empty()) continue;
      const float* const factors = dropout.draw(row.t, row.head, block.first, keys.end);
      for_each_vector(keys, [&](int64_t j, auto) HEADWISE_LAMBDA {
        hn::Store(hn::Mul(hn::Load(d, s + j), hn::Load(d, factors + j)), d, s + j);
      });
    }
  }

  HWY_NOINLINE void score_in_place(const RowBlock& rows, int64_t r0, const KeyBlock& block) {
    const Source k = keys_from(plan_.problem.k, sequence_, kv_head_, block.first);
    for (int64_t r = 0; r < rows.count; ++r) {
      ahead_.some();
      const Interval keys = within(rows.rows[r].keys, block.first, block.keys);
      const float* const q = q_ + (r0 + r) * q_stride_;
      for (int64_t j = keys.begin; j < keys.end; ++j) {
        s_[r * kScoreStride + j] = dot(q, k.data + j * k.row, plan_.D);
      }
    }
  }

  static HWY_INLINE float dot(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                              int64_t count) {
    const F32 d;
    Vec sum0 = hn::Zero(d), sum1 = hn::Zero(d);
    int64_t c = 0;
    for (; c + 2 * kLanes <= count; c += 2 * kLanes) {
      sum0 = hn::MulAdd(hn::Load(d, a + c), hn::LoadU(d, b + c), sum0);
      sum1 = hn::MulAdd(hn::Load(d, a + c + kLanes), hn::LoadU(d, b + c + kLanes), sum1);
    }
    float sum = 0;
    if (c + kLanes <= count) {
      sum0 = hn::MulAdd(hn::Load(d, a + c), hn::LoadU(d, b + c), sum0);
      c += kLanes;
    }
    for (; c < count; ++c) sum += a[c] * b[c];
    return sum + hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
  }

  HWY_NOINLINE void weighted_sum_in_place(const RowBlock& rows, int64_t r0, const KeyBlock& block,
                                          const float* alpha) {
    const F32 d;
    const Source v = keys_from(plan_.problem.v, sequence_, kv_head_, block.first);
    for (int64_t r = 0; r < rows.count; ++r) {
      const Interval keys = within(rows.rows[r].keys, block.first, block.keys);
      if (keys.empty()) continue;  // its tile may have had no softmax, and then no alpha
      ahead_.some();
      const float* const e = s_ + r * kScoreStride;
      float* const out = out_ + (r0 + r) * out_stride_;
      int64_t c = 0;
      for (; c + kPanel <= plan_.Dv; c += kPanel) {
        Vec sum0 = hn::Zero(d), sum1 = hn::Zero(d);
        for (int64_t j = keys.begin; j < keys.end; ++j) {
          const Vec x = hn::Set(d, e[j]);
          sum0 = hn::MulAdd(x, hn::LoadU(d, v.data + j * v.row + c), sum0);
          sum1 = hn::MulAdd(x, hn::LoadU(d, v.data + j * v.row + c + kLanes), sum1);
        }
        const Vec a = hn::Set(d, alpha[r]);
        hn::Store(hn::MulAdd(a, hn::Load(d, out + c), sum0), d, out + c);
        hn::Store(hn::MulAdd(a, hn::Load(d, out + c + kLanes), sum1), d, out + c + kLanes);
      }
      for (; c < plan_.Dv; ++c) {
        float sum = 0;
        for (int64_t j = keys.begin; j < keys.end; ++j) sum += e[j] * v.data[j * v.row + c];
        out[c] = alpha[r] * out[c] + sum;
      }
    }
  }

  /// Normalises and writes what the rows gathered.
  void finish(RowObserver* observer, HeadSums* sums) {
    const F32 d;
    const int64_t padded = round_up(row_count_, kLanes);
    float* const inverse = scratch_.take<float>(padded);
    float* const log2_sum = scratch_.take<float>(padded);
    std::fill(inverse + row_count_, inverse + padded, 1.0f);
    for (int64_t r = 0; r < row_count_; ++r) {
      inverse[r] = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, sum_ + r * kLanes)));
    }
    for (int64_t r = 0; r < padded; r += kLanes) {
      const Vec sum = hn::Load(d, inverse + r);
      hn::Store(hn::Div(hn::Set(d, 1.0f), sum), d, inverse + r);
      hn::Store(hn::IfThenElse(hn::Eq(sum, sum), hn::Log2(d, sum), sum), d, log2_sum + r);
    }
    float* const sink_weight = plan_.has_sinks() ? scratch_.take<float>(row_count_) : nullptr;
    if (sink_weight != nullptr) add_sinks(inverse, log2_sum, sink_weight);
    for (int64_t r = 0; r < row_count_; ++r) write(r, inverse[r], log2_sum[r]);
    if (observer == nullptr) return;
    const std::vector<int32_t>& heads = plan_.query_heads[kv_head_];
    int64_t begin = 0;
    for (size_t g = 0; g < heads.size(); ++g) {
      int64_t end = begin;
      while (end < row_count_ && rows_[end].head == heads[g]) ++end;
      for (; begin < end; begin = std::min(begin + kRowBlock, end)) {
        observer->finish(begin, std::min(begin + kRowBlock, end), inverse, log2_sum, sink_weight,
                         sums[g]);
      }
      begin = end;
    }
  }

  /// The sinks join the sums of their rows. A sink above all scores moves the maximum: then
  /// inverse and log2_sum take in by how much, and stay relative to the maximum of the keys.
  HWY_NOINLINE void add_sinks(float* inverse, float* log2_sum, float* sink_weight) const {
    for (int64_t r = 0; r < row_count_; ++r) {
      const float sink = plan_.sink(rows_[r].head) - maximum_[r];
      const float above = std::max(0.0f, sink);
      const float keys = std::exp2(log2_sum[r] - above), extra = std::exp2(sink - above);
      const float sum = keys + extra;
      inverse[r] = std::exp2(-above) / sum;
      log2_sum[r] = above + std::log2(sum);
      sink_weight[r] = extra / sum;
    }
  }

  HWY_INLINE void write(int64_t r, float inverse, float log2_sum) {
    const Row& row = rows_[r];
    if (outputs_.lse.data() != nullptr) {
      outputs_.lse(row.t, row.head) = kLn2 * (maximum_[r] + log2_sum);
    }
    const View<float, 3>& out = outputs_.out;
    float* const to = &out(row.t, row.head, 0);
    const float* const from = out_ + r * out_stride_;
    int64_t c = 0;
    if (row.gate == 0) {  // observed only; 0 also where the values are infinite or NaN
      for (; c < plan_.Dv; ++c) to[c * out.stride(2)] = 0;
      return;
    }
    const float factor = row.gate * inverse;
    if (out.stride(2) == 1) {
      const F32 d;
      for (; c + kLanes <= plan_.Dv; c += kLanes) {
        hn::StoreU(hn::Mul(hn::Load(d, from + c), hn::Set(d, factor)), d, to + c);
      }
    }
    for (; c < plan_.Dv; ++c) to[c * out.stride(2)] = from[c] * factor;
  }

  const AttentionPlan& plan_;
  int64_t b_;
  const SequenceRows& sequence_;
  int64_t kv_head_;
  const ForwardOutputs& outputs_;
  RowPrefetcher& ahead_;
  Scratch& scratch_;
  int64_t q_stride_, out_stride_;
  Row* rows_ = nullptr;
  int64_t row_count_ = 0;
  float* q_;        // [rows][q_stride], times the scale
  float* out_;      // [rows][out_stride], not yet normalised
  float* sum_;      // [rows][lanes] of weights
  float* maximum_;  // [rows]
  float* s_;        // [kRowBlock][kScoreStride] scores, then weights
};

/// Its key/value head's share of what the items of the next sequence read.
void prefetch_next(const AttentionPlan& plan, const ForwardItem& item, RowPrefetcher& ahead) {
  ahead.clear();
  if (item.b + 1 == plan.B) return;
  const SequenceRows& next = plan.sequences[item.b + 1];
  const Attention& from = plan.problem;
  ahead.add(from.q, next.q_begin, next.q_begin + next.q_real, item.kv_head, plan.K);
  ahead.add(from.k, next.k_begin, next.k_begin + next.k_real, item.kv_head, plan.K);
  ahead.add(from.v, next.k_begin, next.k_begin + next.k_real, item.kv_head, plan.K);
}

void forward_items(const AttentionPlan& plan, std::span<const ForwardItem> items,
                   const ForwardOutputs& outputs) {
  RowPrefetcher ahead;
  for (const ForwardItem& item : items) {
    prefetch_next(plan, item, ahead);
    Scratch scratch;
    Forward forward(plan, item, outputs, ahead, scratch);
    Observation* const seen = outputs.observation;
    forward.run(seen == nullptr ? nullptr : seen->sums.data() + item.sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif
