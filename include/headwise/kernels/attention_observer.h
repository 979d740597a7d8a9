// Statistics of the attention weights of each head, accumulated inside the attention kernel.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "headwise/core/view.h"

namespace headwise {

/// A sum over rows and their number.
struct RunningMean {
  double sum = 0;
  int64_t n = 0;

  /// NaN without rows.
  double mean() const { return sum / static_cast<double>(n); }
  RunningMean& operator+=(const RunningMean& other) {
    sum += other.sum;
    n += other.n;
    return *this;
  }
};

/// Offsets -8 … 8 have their own share of largest weights.
inline constexpr int kMaxOffset = 8;

/// One head's statistics. p[j] is the weight of a row at position i on key j, before dropout and
/// gates; a row counts where the comment says, and only if it sees any key.
struct HeadStatistics {
  RunningMean entropy;        // -sum p ln p over the keys, nats; all rows
  RunningMean entropy_ratio;  // entropy / ln visible; rows that see at least two keys
  RunningMean confidence;     // max p; all rows
  RunningMean mass_first;     // p[0]; all rows
  RunningMean mass_last;  // p of the last real key; all rows, under a causal mask those that see it
  RunningMean mass_given;                 // p[given key]; rows that have one and see it
  RunningMean mass_sink;                  // 1 - sum p, only with sinks; all rows
  std::vector<RunningMean> mass_key_set;  // per set, the summed weight on its keys; all rows

  // Self attention only:
  RunningMean distance;                             // sum p |i - j|; all rows
  RunningMean mass_previous, mass_self, mass_next;  // p[i-1], p[i], p[i+1]; rows that see that key
  RunningMean mass_window;                          // weight on |i - j| <= 2; all rows
  // [d + 8]: 1 if the largest weight is at i + d (ties: the smallest key); rows that see i + d
  std::array<RunningMean, 2 * kMaxOffset + 1> offset_share;

  // Cross attention only:
  RunningMean mass_diagonal;  // weight on keys with |j/M - r/N| <= 0.1, r the row's index among the
                              // N real rows of its sequence; all rows

  HeadStatistics& operator+=(const HeadStatistics& other);
};

/// attention_forward adds to `heads` and fills the per-row views that are not empty. Heads with
/// gate 0 are observed too. T and S are those of the attention problem.
struct AttentionObserver {
  bool cross = false;  // queries and keys are of different sequences: no offsets, but a diagonal

  View<const uint8_t, 2> key_sets{};     // [G, S]: nonzero where key s is in set g
  std::span<const int64_t> given_key{};  // [T] or empty: a key of each row's sequence, or -1
  std::span<const uint8_t> left_out{};   // [S] or empty: keys that largest_kept must not name
  // R rows are compared with numbers of their own, one per key. [T] or empty: which of the R a row
  // is, each at most once, or -1.
  std::span<const int64_t> compared{};
  // [R, M or more], each row's numbers one after the other; NaN: that key is left out.
  View<const float, 2> compared_with{};

  std::vector<HeadStatistics> heads{};  // [H]; empty is taken as all zero
  View<int32_t, 2> largest{};       // [T, H]: key of the largest weight (ties: the smallest), or -1
  View<int32_t, 2> largest_kept{};  // [T, H]: the same among the keys not left out
  View<float, 2> given_weight{};    // [T, H]: p[given key]; 0 if there is none or it is not seen
  // [R, H]: Pearson's, of p and the numbers, over the keys seen and not left out; NaN of fewer than
  // three, or where either hardly varies. Untouched where no row is compared.
  View<float, 2> correlation{};
};

}  // namespace headwise
