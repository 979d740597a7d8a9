// An attention problem checked and resolved: what the kernels of every SIMD target read. Kernels
// know no spans that may be empty, no defaults and no units but these: scores in base 2, keys
// counted from their sequence's first.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/kernels/attention.h"

namespace headwise {

inline constexpr float kLog2E = 1.44269504088896340736f;
inline constexpr float kLn2 = 0.693147180559945309417f;
/// Biases mask keys with the least float or -infinity; in base 2 the former would be -infinity too,
/// and infinities have no difference.
inline constexpr float kLeastBias = -1e30f;

struct Interval {
  int32_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
  /// The least interval that holds both; an empty one adds nothing.
  Interval hull(Interval other) const {
    if (empty()) return other;
    if (other.empty()) return *this;
    return {std::min(begin, other.begin), std::max(end, other.end)};
  }
};

struct SequenceRows {
  int64_t q_begin, q_rows, q_real;  // q_real ≤ q_rows are not padding
  int64_t k_begin, k_rows, k_real;
};

class AttentionPlan {
 public:
  explicit AttentionPlan(const Attention& attention);

  const Attention& problem;
  int64_t B, T, S, H, K, D, Dv;
  float scale;  // of scores, in base 2 not yet included
  std::vector<SequenceRows> sequences;
  std::vector<std::vector<int32_t>> query_heads;  // [K]: those that read each key/value head

  int32_t position(const SequenceRows& sequence, int64_t i) const {
    return problem.positions.empty()
               ? static_cast<int32_t>(i + sequence.k_rows - sequence.q_rows)
               : static_cast<int32_t>(problem.positions[sequence.q_begin + i]);
  }
  Interval visible(const SequenceRows& sequence, int32_t position) const;

  /// The factor on head h of row t of sequence b, dropped heads included.
  float gate(int64_t b, int64_t t, int64_t h) const {
    return problem_gate(b, t, h) * (head_scale_.empty() ? 1.0f : head_scale_[b * H + h]);
  }
  float problem_gate(int64_t b, int64_t t, int64_t h) const;
  bool causal() const { return right_ <= 0; }

  /// Bias of head h in base 2, indexed by distance j - p from min_distance to max_distance; null:
  /// none.
  const float* bias(int64_t h) const {
    return bias_.size() == 0 ? nullptr : bias_.data() + h * distance_stride_ - min_distance_;
  }
  /// The dense bias of row i of sequence b on head h, by key, in base e; null: none.
  const float* dense_bias(int64_t b, int64_t h, int64_t i) const {
    return problem.bias.data() == nullptr ? nullptr : &problem.bias(b, h, i, 0);
  }
  bool has_sinks() const { return !problem.sinks.empty(); }
  float sink(int64_t h) const { return problem.sinks[h] * kLog2E; }

  /// |j - p| likewise; made by need_distances().
  const float* distance() const { return distance_.data() - min_distance_; }
  void need_distances();
  int64_t min_distance() const { return min_distance_; }
  int64_t max_distance() const { return max_distance_; }
  int32_t bucket(int64_t distance) const;

 private:
  void check_shapes();
  void check_arithmetic() const;
  void check_dense_bias() const;
  void lay_out_sequences();
  void group_heads();
  void draw_heads();
  void span_distances();
  void lay_out_bias();

  std::vector<float> head_scale_;  // [B, H]: 0, or 1 / (1 - head_dropout); empty: all 1
  int64_t left_, right_, first_keys_;
  int64_t min_distance_ = 0, max_distance_ = 0, distance_stride_ = 0;
  Buffer bias_, distance_;
};

/// How many neighbouring items a thread takes at a time: they read the same rows, of other heads,
/// and prefetch those of the next sequence.
constexpr int64_t items_at_once(int64_t items) { return std::clamp<int64_t>(items / 64, 1, 32); }

}  // namespace headwise
