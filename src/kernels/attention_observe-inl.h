// Statistics of attention weights, gathered beside the running softmax. Included once per SIMD
// target.
#if defined(HEADWISE_ATTENTION_OBSERVE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_OBSERVE_INL_H_
#undef HEADWISE_ATTENTION_OBSERVE_INL_H_
#else
#define HEADWISE_ATTENTION_OBSERVE_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/attention-inl.h"
#include "kernels/attention_forward.h"
#include "kernels/comoments.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {

/// The first key in `keys` whose score is `value`, or -1; scores(j) are a vector's. Compares them
/// all: leaving at the first one found would be mispredicted nearly every time.
template <class Scores>
HWY_INLINE int32_t find_first(Interval keys, float value, const Scores& scores) {
  const F32 d;
  const Vec none = hn::Set(d, static_cast<float>(kKeyBlock)), wanted = hn::Set(d, value);
  Vec first = none;
  Vec index = hn::Add(hn::Iota(d, 0), hn::Set(d, static_cast<float>(keys.begin / kLanes * kLanes)));
  for_each_vector(keys, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
    auto found = hn::Eq(scores(j), wanted);
    if constexpr (masked()) found = hn::And(found, inside(keys, j));
    first = hn::Min(first, hn::IfThenElse(found, index, none));
    index = hn::Add(index, hn::Set(d, static_cast<float>(kLanes)));
  });
  const auto at = static_cast<int32_t>(hn::GetLane(hn::MinOfLanes(d, first)));
  return at < kKeyBlock ? at : -1;
}

/// The observed state of an item's rows while the keys go by: weights are not yet normalised, and
/// relative to the row's maximum so far, as the softmax has them.
class RowObserver {
 public:
  RowObserver(const AttentionPlan& plan, int64_t b, Observation& observation, const Row* rows,
              int64_t count, Scratch& scratch)
      : plan_(plan),
        sequence_(plan.sequences[b]),
        observer_(observation.observer),
        shared_(observation.rows),
        sets_of_keys_(observation.rows.members[b]),
        rows_(rows),
        sets_(observer_.key_sets.extent(0)) {
    const int64_t padded = round_up(count, kLanes);
    entropy_ = scratch.zeros<float>(padded * kLanes);
    distance_ = scratch.zeros<float>(padded * kLanes);
    mass_ = scratch.zeros<float>(padded * HeadSums::kMasses);
    set_mass_ = scratch.zeros<float>(padded * sets_);
    members_ = scratch.take<Interval>(sets_);
    largest_ = scratch.take<int32_t>(padded);
    std::fill_n(largest_, padded, -1);
    if (observer_.cross) no_distance_ = scratch.zeros<float>(kKeyBlock);
    if (!observer_.compared.empty()) comoments_ = scratch.zeros<Comoments>(padded);
    if (observer_.largest_kept.data() != nullptr) {
      kept_score_ = scratch.take<float>(padded);
      kept_ = scratch.take<int32_t>(padded);
      left_out_ = scratch.take<float>(kKeyBlock);
      std::fill_n(kept_score_, padded, -kInfinity);
      std::fill_n(kept_, padded, -1);
    }
  }

  /// Once per block of keys, before its rows.
  void begin_keys(int64_t first, int64_t keys) {
    for (int64_t g = 0; g < sets_; ++g) {
      const std::vector<int32_t>& all = sets_of_keys_[g];
      const auto at = [&](int64_t key) {
        return static_cast<int32_t>(std::lower_bound(all.begin(), all.end(), key) - all.begin());
      };
      members_[g] = {at(first), at(first + keys)};
    }
    if (left_out_ == nullptr) return;
    for (int64_t j = 0; j < round_up(keys, kLanes); ++j) {
      const bool out = j >= keys || (!observer_.left_out.empty() &&
                                     observer_.left_out[sequence_.k_begin + first + j] != 0);
      left_out_[j] = out ? -kInfinity : 0.0f;
    }
  }

  /// Row r's scores have a new maximum among `keys` of the block at `first`.
  HWY_INLINE void new_maximum(int64_t r, const float* s, Interval keys, int64_t first,
                              float maximum) {
    const int32_t at = find_first(
        keys, maximum, [&](int64_t j) HEADWISE_LAMBDA { return hn::Load(F32(), s + j); });
    if (at < 0) return;
    largest_[r] = static_cast<int32_t>(first + at);
    if (left_out_ != nullptr && left_out_[at] == 0) {
      kept_score_[r] = maximum;
      kept_[r] = largest_[r];
    }
  }

  /// Row r's scores, before they become weights; none of them is above `bound`.
  HWY_INLINE void scores(int64_t r, const float* s, Interval keys, int64_t first, float bound) {
    if (left_out_ == nullptr || bound <= kept_score_[r]) return;
    const F32 d;
    const auto kept = [&](int64_t j) HEADWISE_LAMBDA {
      return hn::Add(hn::Load(d, s + j), hn::Load(d, left_out_ + j));
    };
    Vec largest = hn::Set(d, -kInfinity);
    for_each_vector(keys, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
      Vec x = kept(j);
      if constexpr (masked()) x = hn::IfThenElse(inside(keys, j), x, hn::Set(d, -kInfinity));
      largest = hn::Max(largest, x);
    });
    const float maximum = hn::GetLane(hn::MaxOfLanes(d, largest));
    if (!(maximum > kept_score_[r])) return;
    kept_score_[r] = maximum;
    kept_[r] = static_cast<int32_t>(first + find_first(keys, maximum, kept));
  }

  /// The numbers that row r is compared with, which every head reads again: of many keys they are
  /// more than a cache holds, and on their way while other rows are worked on.
  HWY_INLINE void prefetch(int64_t r, Interval keys, int64_t first) const {
    const float* const y = numbers(r, first);
    constexpr int64_t kLine = kAlignment / sizeof(float);
    for (int64_t j = keys.begin; y != nullptr && j < keys.end; j += kLine) hwy::Prefetch(y + j);
  }

  const float* distance_line(int64_t r, int64_t first) const {
    return observer_.cross ? no_distance_ : plan_.distance() + first - rows_[r].position;
  }

  /// The maximum of row r moved up by -delta ≥ 0: all of it shrinks by alpha = 2^delta. `sum` is
  /// before that.
  HWY_INLINE void rescale(int64_t r, float alpha, float delta, const float* sum) {
    const F32 d;
    const Vec a = hn::Set(d, alpha);
    Vec entropy = hn::Load(d, entropy_ + r * kLanes);
    entropy = hn::Mul(a, hn::MulAdd(hn::Set(d, delta), hn::Load(d, sum), entropy));
    hn::Store(entropy, d, entropy_ + r * kLanes);
    scale(distance_ + r * kLanes, kLanes, alpha);
    scale(mass_ + r * HeadSums::kMasses, HeadSums::kMasses, alpha);
    for (int64_t g = 0; g < sets_; ++g) set_mass_[r * sets_ + g] *= alpha;
    if (comoments_ != nullptr) comoments_[r].scale_x(alpha);
  }

  /// Row r's weights on `keys` of the block at `first`; entropy = sum e t and distance = sum e |i -
  /// j| of them.
  HWY_INLINE void weights(int64_t r, const float* e, Interval keys, int64_t first, Vec entropy,
                          Vec distance) {
    add(entropy_ + r * kLanes, entropy);
    add(distance_ + r * kLanes, distance);
    pick(r, e, keys, first);
    const float* const y = numbers(r, first);
    if (y != nullptr) comoments_[r].add(comoments(e, y, keys));
  }

  /// The weights e of a tile's rows from row r0 on, on key sets; 0 for keys in `any` that a row
  /// does not see.
  HWY_INLINE void key_sets(const RowTile& tile, int64_t r0, const float* e, Interval any,
                           int64_t first) {
    for (int64_t g = 0; g < sets_; ++g) {
      const int32_t* const keys = sets_of_keys_[g].data();
      Interval range = members_[g];
      while (!range.empty() && keys[range.begin] - first < any.begin) ++range.begin;
      while (!range.empty() && keys[range.end - 1] - first >= any.end) --range.end;
      with_tile_rows(tile.rows, [&](auto rows) HEADWISE_LAMBDA {
        constexpr int R = rows();
        float sum[R] = {};
        for (int32_t i = range.begin; i < range.end; ++i) {
          const float* const at = e + keys[i] - first;
          HEADWISE_UNROLL
          for (int r = 0; r < R; ++r) sum[r] += at[r * kScoreStride];
        }
        for (int r = 0; r < R; ++r) set_mass_[(r0 + r) * sets_ + g] += sum[r];
      });
    }
  }

  /// Rows [begin, end), all of one head, are done: their normalised sums go to `sums`. inverse[r]
  /// is 1 / sum of the weights, log2_sum[r] its logarithm; sink_weight is null without sinks.
  void finish(int64_t begin, int64_t end, const float* inverse, const float* log2_sum,
              const float* sink_weight, HeadSums& sums);

 private:
  using MassTag = hn::CappedTag<float, HeadSums::kMasses>;

  static HWY_INLINE void add(float* to, Vec x) {
    const F32 d;
    hn::Store(hn::Add(hn::Load(d, to), x), d, to);
  }

  static HWY_INLINE void scale(float* data, int64_t count, float factor) {
    const MassTag d;
    for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
      hn::Store(hn::Mul(hn::Load(d, data + i), hn::Set(d, factor)), d, data + i);
    }
  }

  /// The numbers that row r is compared with, from key `first` on, or null.
  HWY_INLINE const float* numbers(int64_t r, int64_t first) const {
    const int64_t index = comoments_ == nullptr ? -1 : observer_.compared[rows_[r].t];
    return index < 0 ? nullptr : &observer_.compared_with(index, first);
  }

  /// Of weights x and numbers y on the keys whose numbers are not NaN. Means come first: where
  /// numbers hardly vary, sums of their squares would lose it. What the means are off by rounding
  /// is taken out of the products.
  static HWY_INLINE Comoments comoments(const float* x, const float* y, Interval keys) {
    const F32 d;
    const Vec nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    const auto number_at = [&](int64_t j, auto masked) HEADWISE_LAMBDA {
      if constexpr (!masked()) return hn::LoadU(d, y + j);
      const Vec some = load_n(y + j, std::min<int64_t>(kLanes, keys.end - j));
      return hn::IfThenElse(inside(keys, j), some, nan);
    };
    Comoments part;
    Vec sum_x = hn::Zero(d), sum_y = hn::Zero(d);
    for_each_vector(keys, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
      const Vec number = number_at(j, masked);
      const auto counted = hn::Eq(number, number);
      part.n += static_cast<int64_t>(hn::CountTrue(d, counted));
      sum_x = hn::Add(sum_x, hn::IfThenElseZero(counted, hn::Load(d, x + j)));
      sum_y = hn::Add(sum_y, hn::IfThenElseZero(counted, number));
    });
    if (part.n == 0) return part;
    part.mean_x = hn::GetLane(hn::SumOfLanes(d, sum_x)) / static_cast<double>(part.n);
    part.mean_y = hn::GetLane(hn::SumOfLanes(d, sum_y)) / static_cast<double>(part.n);
    const Vec mean_x = hn::Set(d, static_cast<float>(part.mean_x));
    const Vec mean_y = hn::Set(d, static_cast<float>(part.mean_y));
    Vec xx = hn::Zero(d), yy = hn::Zero(d), xy = hn::Zero(d);
    sum_x = sum_y = hn::Zero(d);
    for_each_vector(keys, [&](int64_t j, auto masked) HEADWISE_LAMBDA {
      const Vec number = number_at(j, masked);
      const auto counted = hn::Eq(number, number);
      const Vec off_x = hn::IfThenElseZero(counted, hn::Sub(hn::Load(d, x + j), mean_x));
      const Vec off_y = hn::IfThenElseZero(counted, hn::Sub(number, mean_y));
      sum_x = hn::Add(sum_x, off_x);
      sum_y = hn::Add(sum_y, off_y);
      xx = hn::MulAdd(off_x, off_x, xx);
      yy = hn::MulAdd(off_y, off_y, yy);
      xy = hn::MulAdd(off_x, off_y, xy);
    });
    const double off_x = hn::GetLane(hn::SumOfLanes(d, sum_x));
    const double off_y = hn::GetLane(hn::SumOfLanes(d, sum_y));
    const auto n = static_cast<double>(part.n);
    part.xx = hn::GetLane(hn::SumOfLanes(d, xx)) - off_x * off_x / n;
    part.yy = hn::GetLane(hn::SumOfLanes(d, yy)) - off_y * off_y / n;
    part.xy = hn::GetLane(hn::SumOfLanes(d, xy)) - off_x * off_y / n;
    return part;
  }

  /// Weights on single keys.
  HWY_INLINE void pick(int64_t r, const float* e, Interval keys, int64_t first) {
    const Row& row = rows_[r];
    float* const mass = mass_ + r * HeadSums::kMasses;
    const auto at = [&](int64_t j) { return j >= keys.begin && j < keys.end ? e[j] : 0.0f; };
    if (first == 0) mass[HeadSums::kFirst] = at(0);
    mass[HeadSums::kLast] += at(sequence_.k_real - 1 - first);
    if (!observer_.given_key.empty()) {
      mass[HeadSums::kGiven] += at(observer_.given_key[row.t] - first);
    }
    if (observer_.cross) {
      const Interval near = diagonal(row);
      for (int64_t j = std::max<int64_t>(near.begin - first, keys.begin);
           j < std::min<int64_t>(near.end - first, keys.end); ++j) {
        mass[HeadSums::kDiagonal] += e[j];
      }
      return;
    }
    const int64_t i = row.position - first;
    if (i + 2 < keys.begin || i - 2 >= keys.end) return;
    float near[5];
    if (i - 2 >= keys.begin && i + 2 < keys.end) {
      std::copy_n(e + i - 2, 5, near);
    } else {
      for (int64_t n = 0; n < 5; ++n) near[n] = at(i - 2 + n);
    }
    mass[HeadSums::kPrevious] += near[1];
    mass[HeadSums::kSelf] += near[2];
    mass[HeadSums::kNext] += near[3];
    mass[HeadSums::kWindow] += ((near[0] + near[1]) + (near[3] + near[4])) + near[2];
  }

  /// Keys with |j / M - i / N| <= 0.1.
  Interval diagonal(const Row& row) const {
    const double m = static_cast<double>(sequence_.k_real);
    const double at =
        static_cast<double>(row.t - sequence_.q_begin) / static_cast<double>(sequence_.q_real);
    const auto near = [&](int64_t j) { return std::abs(static_cast<double>(j) / m - at) <= 0.1; };
    int64_t begin = std::clamp<int64_t>(std::llround((at - 0.1) * m), 0, sequence_.k_real);
    int64_t end = std::clamp<int64_t>(std::llround((at + 0.1) * m), 0, sequence_.k_real);
    while (begin > 0 && near(begin - 1)) --begin;
    while (begin < end && !near(begin)) ++begin;
    while (end > begin && !near(end - 1)) --end;
    while (end < sequence_.k_real && near(end)) ++end;
    return {static_cast<int32_t>(begin), static_cast<int32_t>(end)};
  }

  const AttentionPlan& plan_;
  const SequenceRows& sequence_;
  const AttentionObserver& observer_;
  const ObservedRows& shared_;
  const std::vector<std::vector<int32_t>>& sets_of_keys_;
  const Row* rows_;
  int64_t sets_;
  const float* no_distance_ = nullptr;  // zeros, for cross attention
  float *entropy_, *distance_;          // [rows][lanes]
  float* mass_;                         // [rows][kMasses]
  float* set_mass_;                     // [rows][sets]
  Interval* members_;                   // [sets]: those of sets_of_keys_ in the block
  int32_t* largest_;
  float* kept_score_ = nullptr;
  int32_t* kept_ = nullptr;
  Comoments* comoments_ = nullptr;  // of weights and the numbers that they are compared with
  float* left_out_ = nullptr;       // [kKeyBlock], -infinity where the key is left out
};

HWY_NOINLINE void RowObserver::finish(int64_t begin, int64_t end, const float* inverse,
                                      const float* log2_sum, const float* sink_weight,
                                      HeadSums& sums) {
  const F32 d;
  const MassTag dm;
  const int64_t mass_lanes = static_cast<int64_t>(hn::Lanes(dm));
  float mass[HeadSums::kMasses] = {};
  float entropy = 0, ratio = 0, confidence = 0, distance = 0, sink = 0;
  for (int64_t r = begin; r < end; ++r) {
    const Row& row = rows_[r];
    const float inv = inverse[r];
    const float sum_et = hn::GetLane(hn::SumOfLanes(d, hn::Load(d, entropy_ + r * kLanes)));
    float all = log2_sum[r];  // times the sum of the weights
    if (sink_weight != nullptr) {
      all *= 1 - sink_weight[r];
      sink += sink_weight[r];
    }
    const float h = kLn2 * (all - sum_et * inv);
    entropy += h;
    ratio += h * shared_.inverse_log_visible[row.t];
    confidence += inv;
    distance += inv * hn::GetLane(hn::SumOfLanes(d, hn::Load(d, distance_ + r * kLanes)));
    for (int64_t m = 0; m < HeadSums::kMasses; m += mass_lanes) {
      hn::StoreU(hn::MulAdd(hn::Load(dm, mass_ + r * HeadSums::kMasses + m), hn::Set(dm, inv),
                            hn::LoadU(dm, mass + m)),
                 dm, mass + m);
    }
    const int64_t offset = int64_t{largest_[r]} - row.position;
    if (!observer_.cross && largest_[r] >= 0 && std::abs(offset) <= kMaxOffset) {
      ++sums.largest_at[offset + kMaxOffset];
    }
    for (int64_t g = 0; g < sets_; ++g) {
      sums.key_set[g] += inv * set_mass_[r * sets_ + g];
    }
    if (observer_.largest.data() != nullptr) observer_.largest(row.t, row.head) = largest_[r];
    if (kept_ != nullptr) observer_.largest_kept(row.t, row.head) = kept_[r];
    if (observer_.given_weight.data() != nullptr) {
      observer_.given_weight(row.t, row.head) =
          inv * mass_[r * HeadSums::kMasses + HeadSums::kGiven];
    }
    if (comoments_ != nullptr && observer_.compared[row.t] >= 0) {
      observer_.correlation(observer_.compared[row.t], row.head) =
          static_cast<float>(comoments_[r].correlation());
    }
  }
  sums.entropy += entropy;
  sums.entropy_ratio += ratio;
  sums.confidence += confidence;
  sums.distance += distance;
  sums.sink += sink;
  for (int m = 0; m < HeadSums::kMasses; ++m) sums.mass[m] += mass[m];
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif
