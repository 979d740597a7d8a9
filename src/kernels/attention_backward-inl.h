// The backward kernel: weights again from scores and saved log-sum-exp, then their gradients.
// Included once per SIMD target.
//
// With P the weights, dP = dout . v, and delta = sum_j P dP = dout . out:
//   dS = P (dP - delta),   dq = scale dS k,   dk = scale dS^T q,   dv = P^T dout
#if defined(HEADWISE_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_BACKWARD_INL_H_
#undef HEADWISE_ATTENTION_BACKWARD_INL_H_
#else
#define HEADWISE_ATTENTION_BACKWARD_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <new>

#include "kernels/attention-inl.h"
#include "kernels/attention_backward.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

/// to[0 … count), `stride` apart, = or += factor * from.
HWY_INLINE void write_row(const float* from, int64_t count, float factor, bool add, float* to,
                          ptrdiff_t stride) {
  const F32 d;
  int64_t c = 0;
  if (stride == 1) {
    for (; c + kLanes <= count; c += kLanes) {
      const Vec x = hn::Mul(hn::Load(d, from + c), hn::Set(d, factor));
      hn::StoreU(add ? hn::Add(hn::LoadU(d, to + c), x) : x, d, to + c);
    }
  }
  for (; c < count; ++c) {
    const float x = from[c] * factor;
    to[c * stride] = add ? to[c * stride] + x : x;
  }
}

/// to[0 … count), `stride` apart, = 0.
HWY_INLINE void clear_row(float* to, int64_t count, ptrdiff_t stride) {
  const F32 d;
  int64_t c = 0;
  if (stride == 1) {
    for (; c + kLanes <= count; c += kLanes) hn::StoreU(hn::Zero(d), d, to + c);
  }
  for (; c < count; ++c) to[c * stride] = 0;
}

/// to[key][column] += sum over rows of s[row][key] * right[row][column]. Weights of keys that a row
/// does not see are 0 wherever any row of the block sees them.
HWY_INLINE void weighted_sum_keys(const RowBlock& block, const float* s, const Operand& right,
                                  int64_t first, int64_t keys, float* to, int64_t stride,
                                  RowPrefetcher& ahead) {
  const F32 d;
  const auto sees = [&](int64_t r, int64_t j, int64_t count) {
    const Interval& seen = block.rows[r].keys;
    return seen.begin < first + j + count && seen.end > first + j;
  };
  bool all = true;
  for (int64_t i = 0; i < block.tile_count; ++i) {
    all = all && block.tiles[i].sees_all(first, first + keys);
  }
  const Interval any = within(block.any, first, keys);
  for (int64_t j = any.begin, count; j < any.end; j += count) {
    count = next_tile(any.end - j);
    int64_t begin = 0, end = block.count;
    if (!all) {
      while (begin < end && !sees(begin, j, count)) ++begin;
      while (end > begin && !sees(end - 1, j, count)) --end;
      if (begin == end) continue;
    }
    ahead.some();
    for_each_panel(right.columns(), [&](int64_t c0, auto vectors) HEADWISE_LAMBDA {
      constexpr int V = vectors();
      with_tile_rows(count, [&](auto rows) HEADWISE_LAMBDA {
        constexpr int R = rows();
        Vec c[R][V];
        multiply_tile<Left::kColumns>(s + begin * kScoreStride + j, kScoreStride,
                                      right.template panel<V>(c0, begin), end - begin, c);
        HEADWISE_UNROLL
        for (int r = 0; r < R; ++r) {
          HEADWISE_UNROLL
          for (int v = 0; v < V; ++v) {
            float* const at = to + (j + r) * stride + c0 + v * kLanes;
            hn::Store(hn::Add(hn::Load(d, at), c[r][v]), d, at);
          }
        }
      });
    });
  }
  for (int64_t j = any.begin; right.has_strays() && j < any.end; ++j) {
    right.add_strays([&](int64_t r) { return s[r * kScoreStride + j]; },
                     [&](int64_t r) { return sees(r, j, 1); }, to + j * stride);
  }
}

/// Before anything is added to them: dq = 0 and delta = dout . out of the item's rows.
void begin_rows(const BackwardData& data, const BackwardItem& item) {
  const F32 d;
  const AttentionPlan& plan = data.plan;
  const SequenceRows& sequence = plan.sequences[item.b];
  const View<float, 3>& dq = data.gradients.dq;
  const bool straight = data.out.stride(2) == 1 && data.dout.stride(2) == 1;
  for (int64_t i = item.row_begin; i < item.row_end; ++i) {
    const int64_t t = sequence.q_begin + i;
    const bool none =
        i >= sequence.q_real || plan.visible(sequence, plan.position(sequence, i)).empty();
    for (const int32_t h : plan.query_heads[item.kv_head]) {
      if (dq.data() != nullptr) clear_row(&dq(t, h, 0), plan.D, dq.stride(2));
      float sum = 0;
      if (!none && plan.gate(item.b, t, h) != 0) {
        int64_t c = 0;
        if (straight) {
          const float* const x = &data.out(t, h, 0);
          const float* const y = &data.dout(t, h, 0);
          Vec total = hn::Zero(d);
          for (; c + kLanes <= plan.Dv; c += kLanes) {
            total = hn::MulAdd(hn::LoadU(d, x + c), hn::LoadU(d, y + c), total);
          }
          sum = hn::GetLane(hn::SumOfLanes(d, total));
        }
        for (; c < plan.Dv; ++c) sum += data.out(t, h, c) * data.dout(t, h, c);
      }
      data.delta[t * plan.H + h] = sum;
    }
  }
}

class Backward {
 public:
  Backward(const BackwardData& data, const BackwardItem& item, double* dtable, RowPrefetcher& ahead,
           Scratch& scratch)
      : data_(data),
        plan_(data.plan),
        item_(item),
        sequence_(plan_.sequences[item.b]),
        dtable_(dtable),
        ahead_(ahead),
        scratch_(scratch),
        d_stride_(round_up(plan_.D, kLanes)),
        v_stride_(round_up(plan_.Dv, kLanes)),
        dropout_(plan_.problem),
        k_(kKeyBlock, plan_.D, scratch),
        q_packed_(kRowBlock, plan_.D, scratch),
        dout_packed_(kRowBlock, plan_.Dv, scratch) {
    gather_rows();
    k_transposed_ = scratch.take<float>(kKeyBlock * plan_.D);
    v_transposed_ = scratch.take<float>(kKeyBlock * plan_.Dv);
    dk_ = scratch.take<float>(kKeyBlock * d_stride_);
    dv_ = scratch.take<float>(kKeyBlock * v_stride_);
    q_ = scratch.take<float>(kRowBlock * d_stride_);
    dout_ = scratch.take<float>(kRowBlock * v_stride_);
    dq_ = scratch.take<float>(kRowBlock * d_stride_);
    p_ = scratch.take<float>(kRowBlock * kScoreStride);
    ds_ = scratch.take<float>(kRowBlock * kScoreStride);
    if (plan_.problem.softcap > 0) slope_ = scratch.take<float>(kRowBlock * kScoreStride);
    if (dtable != nullptr) {
      const int64_t heads = static_cast<int64_t>(plan_.query_heads[item.kv_head].size());
      lines_ = scratch.zeros<float>(heads * distances());
    }
  }

  void run() {
    if (item_.first) begin_rows(data_, item_);
    for (int64_t first = item_.key_begin; first < item_.key_end; first += kKeyBlock) {
      keys(first, std::min(kKeyBlock, item_.key_end - first));
    }
    if (dtable_ != nullptr) fold_lines();
  }

 private:
  int64_t distances() const { return plan_.max_distance() - plan_.min_distance() + 1; }

  void gather_rows() {
    const std::vector<int32_t>& heads = plan_.query_heads[item_.kv_head];
    const int64_t end = std::min(item_.row_end, sequence_.q_real);
    const int64_t most = std::max<int64_t>(0, end - item_.row_begin);
    rows_ = scratch_.take<Row>(most * static_cast<int64_t>(heads.size()));
    for (const int32_t h : heads) {
      for (int64_t i = item_.row_begin; i < end; ++i) {
        const int64_t t = sequence_.q_begin + i;
        const float gate = plan_.gate(item_.b, t, h);
        const int32_t position = plan_.position(sequence_, i);
        const Interval keys = plan_.visible(sequence_, position);
        if (gate == 0 || keys.empty()) continue;
        new (rows_ + row_count_++) Row{t, h, position, keys, gate};
      }
    }
  }

  /// Everything that one block of keys takes part in.
  void keys(int64_t first, int64_t count) {
    const View<const float, 3>&k = plan_.problem.k, &v = plan_.problem.v;
    pack_transposed(keys_from(k, sequence_, item_.kv_head, first), count, plan_.D, k_transposed_);
    pack_transposed(keys_from(v, sequence_, item_.kv_head, first), count, plan_.Dv, v_transposed_);
    k_.pack(keys_from(k, sequence_, item_.kv_head, first), count);
    std::fill_n(dk_, count * d_stride_, 0.0f);
    std::fill_n(dv_, count * v_stride_, 0.0f);
    for (int64_t r = 0; r < row_count_; r += kRowBlock) {
      const RowBlock rows(rows_ + r, std::min(kRowBlock, row_count_ - r));
      if (rows.any.begin < first + count && rows.any.end > first) step(rows, first, count);
    }
    const AttentionGradients& to = data_.gradients;
    for (int64_t j = 0; j < count; ++j) {
      const int64_t s = sequence_.k_begin + first + j;
      if (to.dk.data() != nullptr) {
        write_row(dk_ + j * d_stride_, plan_.D, plan_.scale, !item_.first,
                  &to.dk(s, item_.kv_head, 0), to.dk.stride(2));
      }
      if (to.dv.data() != nullptr) {
        write_row(dv_ + j * v_stride_, plan_.Dv, 1.0f, !item_.first, &to.dv(s, item_.kv_head, 0),
                  to.dv.stride(2));
      }
    }
  }

  /// One block of rows against one block of keys.
  HWY_NOINLINE void step(const RowBlock& rows, int64_t first, int64_t count) {
    load_rows(rows);
    score_tiles<false>(rows, q_, d_stride_, k_transposed_, plan_.D, first, count, p_, ahead_);
    score_tiles<false>(rows, dout_, v_stride_, v_transposed_, plan_.Dv, first, count, ds_, ahead_);
    differentiate(rows, first, count);
    const AttentionGradients& to = data_.gradients;
    if (to.dv.data() != nullptr) {
      weighted_sum_keys(rows, p_, dout_packed_, first, count, dv_, v_stride_, ahead_);
    }
    if (to.dk.data() != nullptr) {
      weighted_sum_keys(rows, ds_, q_packed_, first, count, dk_, d_stride_, ahead_);
    }
    if (to.dq.data() == nullptr) return;
    std::fill_n(dq_, rows.count * d_stride_, 0.0f);
    weighted_sum_rows<false>(rows, ds_, k_, first, count, nullptr, dq_, d_stride_, ahead_);
    for (int64_t r = 0; r < rows.count; ++r) {
      const Row& row = rows.rows[r];
      write_row(dq_ + r * d_stride_, plan_.D, plan_.scale, true, &to.dq(row.t, row.head, 0),
                to.dq.stride(2));
    }
  }

  /// Queries and dout of the rows, for both kinds of products. Queries are scaled for the scores
  /// only: dk is scaled when it is written.
  void load_rows(const RowBlock& rows) {
    const F32 d;
    const View<const float, 3>&q = plan_.problem.q, &dout = data_.dout;
    for (int64_t r = 0; r < rows.count; ++r) {
      if (r + kPrefetchAhead < rows.count) {
        const Row& ahead = rows.rows[r + kPrefetchAhead];
        prefetch_row({&q(ahead.t, ahead.head, 0), 0, q.stride(2)}, 0, plan_.D);
        prefetch_row({&dout(ahead.t, ahead.head, 0), 0, dout.stride(2)}, 0, plan_.Dv);
      }
      const Row& row = rows.rows[r];
      copy_row({&q(row.t, row.head, 0), 0, q.stride(2)}, 0, plan_.D, 1.0f, q_ + r * d_stride_,
               d_stride_);
      copy_row({&dout(row.t, row.head, 0), 0, dout.stride(2)}, 0, plan_.Dv, row.gate,
               dout_ + r * v_stride_, v_stride_);
    }
    q_packed_.pack({q_, d_stride_, 1}, rows.count);
    dout_packed_.pack({dout_, v_stride_, 1}, rows.count);
    const Vec scale = hn::Set(d, plan_.scale * kLog2E);
    for (int64_t i = 0; i < rows.count * d_stride_; i += kLanes) {
      hn::Store(hn::Mul(hn::Load(d, q_ + i), scale), d, q_ + i);
    }
  }

  /// From scores in p_ and dP in ds_ to weights (after dropout) and dS; zeros for keys that only
  /// other rows see.
  HWY_NOINLINE void differentiate(const RowBlock& rows, int64_t first, int64_t count) {
    const F32 d;
    const float cap = plan_.problem.softcap * kLog2E;
    const bool drop = plan_.problem.dropout > 0;
    const Interval any = within(rows.any, first, count);
    for (int64_t r = 0; r < rows.count; ++r) {
      const Row& row = rows.rows[r];
      const Interval seen = within(row.keys, first, count);
      float* const p = p_ + r * kScoreStride;
      float* const ds = ds_ + r * kScoreStride;
      float* const slope = cap > 0 ? slope_ + r * kScoreStride : nullptr;
      if (slope != nullptr) slopes(p, seen, cap, slope);
      cap_and_bias(plan_, item_.b, row, first, seen, p);
      if (drop && !seen.empty()) {
        differentiate_row<true>(row, seen, dropout_.draw(row.t, row.head, first, seen.end), p, ds);
      } else {
        differentiate_row<false>(row, seen, nullptr, p, ds);
      }
      clear_between(p, any, seen);
      clear_between(ds, any, seen);
      if (lines_ != nullptr) add_to_line(row, ds, seen, first);
      const View<float, 4>& dbias = data_.gradients.dbias;
      if (dbias.data() != nullptr) {
        std::copy(ds + seen.begin, ds + seen.end,
                  &dbias(item_.b, row.head, row.t - sequence_.q_begin, first) + seen.begin);
      }
      if (slope == nullptr) continue;
      for_each_vector(seen, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
        Vec x = hn::Mul(hn::Load(d, ds + j), hn::Load(d, slope + j));
        if constexpr (masked()) x = hn::IfThenElseZero(inside(seen, j), x);
        hn::Store(x, d, ds + j);
      });
    }
  }

  template <bool kDrop>
  HWY_INLINE void differentiate_row(const Row& row, Interval seen, const float* factors, float* p,
                                    float* ds) const {
    const F32 d;
    const Vec lse = hn::Set(d, data_.lse(row.t, row.head) * kLog2E);
    const Vec delta = hn::Set(d, data_.delta[row.t * plan_.H + row.head]);
    for_each_vector(seen, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
      Vec e = exp2_nonpositive(hn::Sub(hn::Load(d, p + j), lse));
      if constexpr (masked()) e = hn::IfThenElseZero(inside(seen, j), e);
      Vec dp = hn::Load(d, ds + j);
      Vec kept = e;
      if constexpr (kDrop) {
        dp = hn::Mul(dp, hn::Load(d, factors + j));
        kept = hn::Mul(e, hn::Load(d, factors + j));
      }
      Vec g = hn::Mul(e, hn::Sub(dp, delta));
      if constexpr (masked()) g = hn::IfThenElseZero(inside(seen, j), g);
      hn::Store(kept, d, p + j);
      hn::Store(g, d, ds + j);
    });
  }

  /// The derivative of the softcap, 1 - tanh^2, at raw scores.
  static HWY_INLINE void slopes(const float* s, Interval keys, float cap, float* slope) {
    const F32 d;
    for_each_vector(keys, [&](int64_t j, auto) HEADWISE_LAMBDA {
      const Vec t = hn::Tanh(d, hn::Mul(hn::Load(d, s + j), hn::Set(d, 1 / cap)));
      hn::Store(hn::NegMulAdd(t, t, hn::Set(d, 1.0f)), d, slope + j);
    });
  }

  /// The gradient of the bias at every distance.
  HWY_INLINE void add_to_line(const Row& row, const float* ds, Interval keys, int64_t first) {
    const F32 d;
    const std::vector<int32_t>& heads = plan_.query_heads[item_.kv_head];
    const int64_t g = std::find(heads.begin(), heads.end(), row.head) - heads.begin();
    float* const line = lines_ + g * distances() - plan_.min_distance() + first - row.position;
    for (int64_t j = keys.begin / kLanes * kLanes; j < keys.end; j += kLanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, line + j), hn::Load(d, ds + j)), d, line + j);
    }
  }

  void fold_lines() {
    const int64_t heads = static_cast<int64_t>(plan_.query_heads[item_.kv_head].size());
    const int64_t buckets = plan_.problem.relative_bias.table.extent(1);
    for (int64_t g = 0; g < heads; ++g) {
      for (int64_t i = 0; i < distances(); ++i) {
        dtable_[g * buckets + plan_.bucket(plan_.min_distance() + i)] +=
            lines_[g * distances() + i];
      }
    }
  }

  const BackwardData& data_;
  const AttentionPlan& plan_;
  const BackwardItem& item_;
  const SequenceRows& sequence_;
  double* dtable_;
  RowPrefetcher& ahead_;
  Scratch& scratch_;
  int64_t d_stride_, v_stride_;
  WeightDropout dropout_;
  Row* rows_;
  int64_t row_count_ = 0;
  Operand k_, q_packed_, dout_packed_;
  float *k_transposed_, *v_transposed_;  // of the keys' block
  float *dk_, *dv_;                      // [kKeyBlock][stride]
  float *q_, *dout_;                     // of the rows' block
  float* dq_;                            // [kRowBlock][d_stride]
  float *p_, *ds_;                       // [kRowBlock][kScoreStride]
  float* slope_ = nullptr;               // likewise, of the softcap
  float* lines_ = nullptr;               // [heads][distances]
};

/// Its key/value head's share of what the items of the next sequence read and write.
void prefetch_next(const BackwardData& data, const BackwardItem& item, RowPrefetcher& ahead) {
  const AttentionPlan& plan = data.plan;
  ahead.clear();
  if (!item.first || item.b + 1 == plan.B) return;
  const SequenceRows& next = plan.sequences[item.b + 1];
  const auto rows = [&](const auto& view) {
    ahead.add(view, next.q_begin, next.q_begin + next.q_real, item.kv_head, plan.K);
  };
  const auto keys = [&](const auto& view) {
    ahead.add(view, next.k_begin, next.k_begin + next.k_real, item.kv_head, plan.K);
  };
  const AttentionGradients& to = data.gradients;
  keys(plan.problem.k);
  keys(plan.problem.v);
  rows(plan.problem.q);
  rows(data.dout);
  rows(data.out);
  rows(to.dq);
  keys(to.dk);
  keys(to.dv);
}

/// `dtables` has one table per item, or none.
void backward_items(const BackwardData& data, std::span<const BackwardItem> items,
                    std::span<std::vector<double>> dtables) {
  RowPrefetcher ahead;
  for (size_t i = 0; i < items.size(); ++i) {
    prefetch_next(data, items[i], ahead);
    Scratch scratch;
    Backward(data, items[i], dtables.empty() ? nullptr : dtables[i].data(), ahead, scratch).run();
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif
