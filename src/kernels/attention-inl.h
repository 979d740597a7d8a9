// Scores of a block of rows against a block of keys, tile by tile, and what forward and backward
// share of the softmax. Included once per SIMD target.
#if defined(HEADWISE_ATTENTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_INL_H_
#undef HEADWISE_ATTENTION_INL_H_
#else
#define HEADWISE_ATTENTION_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/scratch.h"
#include "kernels/attention_plan.h"
#include "kernels/attention_random.h"
#include "kernels/exp-inl.h"
#include "kernels/philox-inl.h"
#include "kernels/rows-inl.h"
#include "kernels/tiles-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

constexpr int64_t kRowBlock = 64;   // rows whose scores are held at once,
constexpr int64_t kKeyBlock = 256;  // against this many keys
constexpr int64_t kScoreStride = kKeyBlock + 16;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// One row to be computed: head `head` of query row `t`. Made where it stays: a copy would wait for
/// parts that were just written.
struct Row {
  int64_t t;
  int32_t head;
  int32_t position;
  Interval keys;  // that it sees
  float gate;
};

/// Neighbouring rows whose products are formed together, and the keys that any, and that all of
/// them see.
struct RowTile {
  int64_t first, rows;
  Interval any, all;

  bool sees(int64_t begin, int64_t end) const { return any.begin < end && any.end > begin; }
  bool sees_all(int64_t begin, int64_t end) const { return all.begin <= begin && all.end >= end; }
};

/// Up to kRowBlock rows, cut into tiles.
struct RowBlock {
  const Row* rows;
  int64_t count;
  RowTile tiles[kRowBlock];
  int64_t tile_count = 0;
  Interval any;

  RowBlock(const Row* from, int64_t n) : rows(from), count(n) {
    for (int64_t r = 0; r < n;) {
      RowTile& tile = tiles[tile_count++];
      tile = {r, next_tile(n - r), from[r].keys, from[r].keys};
      for (int64_t i = r + 1; i < r + tile.rows; ++i) {
        tile.any.begin = std::min(tile.any.begin, from[i].keys.begin);
        tile.any.end = std::max(tile.any.end, from[i].keys.end);
        tile.all.begin = std::max(tile.all.begin, from[i].keys.begin);
        tile.all.end = std::min(tile.all.end, from[i].keys.end);
      }
      any = r == 0 ? tile.any
                   : Interval{std::min(any.begin, tile.any.begin), std::max(any.end, tile.any.end)};
      r += tile.rows;
    }
  }
};

/// Keys or values of one key/value head of a sequence, from key `first` on.
HWY_INLINE Source keys_from(const View<const float, 3>& view, const SequenceRows& sequence,
                            int64_t kv_head, int64_t first) {
  return {&view(sequence.k_begin + first, kv_head, 0), view.stride(0), view.stride(2)};
}

/// Rows that are soon read or written, brought near while others are computed: a few lines before
/// every tile, since more than the core can wait for at once would hold up the loads behind them.
class RowPrefetcher {
 public:
  void clear() {
    rows_.clear();
    next_ = column_ = floats_ = 0;
  }

  /// Share `part` of `parts` of rows [begin, end), if their heads lie side by side: rows of one
  /// head that lie together the hardware prefetches. What would not stay near is left out.
  template <class T>
  void add(const View<T, 3>& view, int64_t begin, int64_t end, int64_t part, int64_t parts) {
    constexpr int64_t kMostFloats = 192 * 1024;  // 768 KB for all parts
    const int64_t columns = view.extent(1) * view.extent(2);
    const bool side_by_side =
        view.stride(2) == 1 && (view.stride(1) == view.extent(2) || view.extent(1) == 1);
    floats_ += (end - begin) * columns;
    if (view.data() == nullptr || !side_by_side || floats_ > kMostFloats) return;
    const int64_t first = begin + (end - begin) * part / parts;
    const int64_t last = begin + (end - begin) * (part + 1) / parts;
    if (first == last) return;
    rows_.push_back({&view(first, 0, 0), view.stride(0), last - first, columns});
  }

  HWY_INLINE void some() {
    if (next_ < rows_.size()) prefetch();
  }

 private:
  struct Rows {
    const float* first;
    ptrdiff_t stride;
    int64_t count, columns;
  };

  HWY_NOINLINE void prefetch() {
    constexpr int64_t kLine = 64 / sizeof(float);
    for (int64_t left = kAtOnce * kLine; left > 0 && next_ < rows_.size();) {
      Rows& rows = rows_[next_];
      const int64_t end = std::min(rows.columns, column_ + left);
      for (int64_t c = column_; c < end; c += kLine) {
        __builtin_prefetch(rows.first + c, 0, 2);  // to the second cache: the first is in use
      }
      left -= end - column_;
      column_ = end;
      if (end < rows.columns) return;
      column_ = 0;
      rows.first += rows.stride;
      if (--rows.count == 0) ++next_;
    }
  }

  static constexpr int64_t kAtOnce = 24;  // lines
  std::vector<Rows> rows_;
  size_t next_ = 0;     // of rows_, to be prefetched
  int64_t column_ = 0;  // of its first row
  int64_t floats_ = 0;  // of all that was added
};

/// Part of `keys` inside the block of `count` keys from `first`, counted from there.
HWY_INLINE Interval within(Interval keys, int64_t first, int64_t count) {
  return {static_cast<int32_t>(std::clamp<int64_t>(keys.begin - first, 0, count)),
          static_cast<int32_t>(std::clamp<int64_t>(keys.end - first, 0, count))};
}

/// s[row][key] = left row . right key, for tiles that see the keys; `right` packed by
/// pack_transposed. If asked, row_max[row][lane] becomes the largest seen by each lane, masked keys
/// included.
template <bool kMax>
HWY_INLINE void score_tiles(const RowBlock& block, const float* left, int64_t stride,
                            const float* right, int64_t depth, int64_t first, int64_t keys,
                            float* s, RowPrefetcher& ahead, float* row_max = nullptr) {
  const F32 d;
  for_each_panel(keys, [&](int64_t j, auto vectors) HEADWISE_LAMBDA {
    constexpr int V = vectors();
    for (int64_t i = 0; i < block.tile_count; ++i) {
      const RowTile& tile = block.tiles[i];
      if (!tile.sees(first + j, first + j + V * kLanes)) continue;
      ahead.some();
      with_tile_rows(tile.rows, [&](auto rows) HEADWISE_LAMBDA {
        constexpr int R = rows();
        Vec c[R][V];
        multiply_tile<Left::kRows>(left + tile.first * stride, stride, right + j * depth, depth, c);
        float* const to = s + tile.first * kScoreStride + j;
        HEADWISE_UNROLL
        for (int r = 0; r < R; ++r) {
          HEADWISE_UNROLL
          for (int v = 0; v < V; ++v) hn::Store(c[r][v], d, to + r * kScoreStride + v * kLanes);
          if constexpr (kMax) {
            const Vec larger = V == 2 ? hn::Max(c[r][0], c[r][V - 1]) : c[r][0];
            float* const max = row_max + (tile.first + r) * kLanes;
            hn::Store(j == 0 ? larger : hn::Max(hn::Load(d, max), larger), d, max);
          }
        }
      });
    }
  });
}

/// to[row][column] = factor[row] * to[row][column] + sum over keys of s[row][key] *
/// right[key][column], for tiles that see the keys. Weights of keys that a row does not see are 0.
template <bool kFactor>
HWY_INLINE void weighted_sum_rows(const RowBlock& block, const float* s, const Operand& right,
                                  int64_t first, int64_t keys, const float* factor, float* to,
                                  int64_t stride, RowPrefetcher& ahead) {
  const F32 d;
  for_each_panel(right.columns(), [&](int64_t c0, auto vectors) HEADWISE_LAMBDA {
    constexpr int V = vectors();
    for (int64_t i = 0; i < block.tile_count; ++i) {
      const RowTile& tile = block.tiles[i];
      if (!tile.sees(first, first + keys)) continue;
      ahead.some();
      const Interval range = within(tile.any, first, keys);
      with_tile_rows(tile.rows, [&](auto rows) HEADWISE_LAMBDA {
        constexpr int R = rows();
        Vec c[R][V];
        multiply_tile<Left::kRows>(s + tile.first * kScoreStride + range.begin, kScoreStride,
                                   right.template panel<V>(c0, range.begin),
                                   range.end - range.begin, c);
        HEADWISE_UNROLL
        for (int r = 0; r < R; ++r) {
          float* const at = to + (tile.first + r) * stride + c0;
          const Vec f = hn::Set(d, kFactor ? factor[tile.first + r] : 1.0f);
          HEADWISE_UNROLL
          for (int v = 0; v < V; ++v) {
            const Vec old = hn::Load(d, at + v * kLanes);
            hn::Store(kFactor ? hn::MulAdd(f, old, c[r][v]) : hn::Add(old, c[r][v]), d,
                      at + v * kLanes);
          }
        }
      });
    }
  });
  for (int64_t r = 0; right.has_strays() && r < block.count; ++r) {
    const Interval seen = within(block.rows[r].keys, first, keys);
    right.add_strays([&](int64_t key) { return s[r * kScoreStride + key]; },
                     [&](int64_t key) { return key >= seen.begin && key < seen.end; },
                     to + r * stride);
  }
}

/// Lanes of the vector at key j that are inside `keys`.
HWY_INLINE hn::Mask<F32> inside(Interval keys, int64_t j) {
  const hn::RebindToSigned<F32> di;
  const auto lane = hn::Iota(di, 0);  // a constant: from j on it would be stored lane by lane
  const auto before = hn::Set(di, keys.begin - 1 - static_cast<int32_t>(j));
  const auto end = hn::Set(di, keys.end - static_cast<int32_t>(j));
  return hn::RebindMask(F32(), hn::And(hn::Gt(lane, before), hn::Lt(lane, end)));
}

/// Calls call(j, masked) for the vectors that hold `keys`; masked (a constant) where some lanes are
/// outside.
template <class Call>
HWY_INLINE void for_each_vector(Interval keys, const Call& call) {
  if (keys.empty()) return;
  int64_t j = keys.begin / kLanes * kLanes;
  if (j < keys.begin) {
    call(j, std::true_type());
    j += kLanes;
  }
  for (; j + kLanes <= keys.end; j += kLanes) call(j, std::false_type());
  if (j < keys.end) call(j, std::true_type());
}

/// s += bias in base 2 on `keys`; the same holds for lanes around them.
HWY_INLINE void add_dense_bias(const float* bias, Interval keys, float* s) {
  const F32 d;
  const Vec least = hn::Set(d, kLeastBias);
  for_each_vector(keys, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
    const int64_t count = masked() ? std::min<int64_t>(kLanes, keys.end - j) : kLanes;
    const Vec x = hn::Mul(load_n(bias + j, count), hn::Set(d, kLog2E));
    const Vec bounded = hn::IfThenElse(hn::Lt(x, least), least, x);  // NaN stays
    hn::Store(hn::Add(hn::Load(d, s + j), bounded), d, s + j);
  });
}

/// Softcap and bias on the scores of one row for the keys of the block at `first` that it sees;
/// whole vectors around them may change too. Returns whether there was anything to do.
HWY_INLINE bool cap_and_bias(const AttentionPlan& plan, int64_t b, const Row& row, int64_t first,
                             Interval keys, float* s) {
  const F32 d;
  const float cap = plan.problem.softcap * kLog2E;
  const float* const bias = plan.bias(row.head);
  const float* const dense = plan.dense_bias(b, row.head, row.t - plan.sequences[b].q_begin);
  if (cap == 0 && bias == nullptr && dense == nullptr) return false;
  if (keys.empty()) return true;
  const float* const line = bias == nullptr ? nullptr : bias + first - row.position;
  for (int64_t j = keys.begin / kLanes * kLanes; j < keys.end; j += kLanes) {
    Vec x = hn::Load(d, s + j);
    if (cap > 0) x = hn::Mul(hn::Set(d, cap), hn::Tanh(d, hn::Mul(x, hn::Set(d, 1 / cap))));
    if (line != nullptr) x = hn::Add(x, hn::LoadU(d, line + j));
    hn::Store(x, d, s + j);
  }
  if (dense != nullptr) add_dense_bias(dense + first, keys, s);
  return true;
}

/// Zeros in the vectors that hold `outer` but not `inner`; those that hold both are already right.
HWY_INLINE void clear_between(float* s, Interval outer, Interval inner) {
  const F32 d;
  const int64_t end = inner.empty() ? outer.end : inner.begin / kLanes * kLanes;
  for (int64_t j = outer.begin / kLanes * kLanes; j < end; j += kLanes) {
    hn::Store(hn::Zero(d), d, s + j);
  }
  if (inner.empty()) return;
  for (int64_t j = round_up(inner.end, kLanes); j < outer.end; j += kLanes) {
    hn::Store(hn::Zero(d), d, s + j);
  }
}

/// The factors dropout puts on weights: 0 or `kept`. Rows that are drawn together and asked for one
/// after the other are drawn once.
class WeightDropout {
 public:
  explicit WeightDropout(const Attention& a)
      : seed_(a.seed),
        threshold_(static_cast<uint32_t>(dropout_threshold(a.dropout))),
        kept_(1 / (1 - a.dropout)) {}

  /// Those for keys first + [0, count), count at most kKeyBlock, of row t, head h; until the next
  /// call.
  HWY_INLINE const float* draw(int64_t t, int64_t head, int64_t first, int64_t count) {
    const PhiloxBlock counter = weight_counter(t, head, first);
    if (counter != counter_) {
      counter_ = counter;
      drawn_ = 0;
    }
    for (; drawn_ < count; drawn_ += kDrawn) {
      draw_keys({counter[0] + static_cast<uint32_t>(drawn_), counter[1], counter[2], counter[3]},
                factors_ + drawn_);
    }
    return factors_ + t % kDropoutRows * kKeyBlock;
  }

 private:
  static constexpr int kVectors = kLanes < 16 ? 2 : 1;  // two hide latency; one wastes less
  static constexpr int64_t kDrawn = kVectors * kLanes;

  HWY_INLINE void draw_keys(PhiloxBlock counter, float* factors) const {
    const F32 d;
    Words words[kDropoutRows][kVectors];
    philox_lanes(counter, seed_, words);
    for (int row = 0; row < kDropoutRows; ++row) {
      for (int n = 0; n < kVectors; ++n) {
        const auto dropped = hn::Lt(words[row][n], hn::Set(WordTag(), threshold_));
        hn::Store(hn::IfThenZeroElse(hn::RebindMask(d, dropped), hn::Set(d, kept_)), d,
                  factors + row * kKeyBlock + n * kLanes);
      }
    }
  }

  uint64_t seed_;
  uint32_t threshold_;
  float kept_;
  PhiloxBlock counter_{0, 0, 0, 1};  // of what is drawn; at first of no weights
  int64_t drawn_ = 0;                // keys
  HWY_ALIGN float factors_[kDropoutRows * kKeyBlock];
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif
