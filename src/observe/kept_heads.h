// Heads that have attended, as they are compared by js: kept for later, and their divergences
// summed up.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/kernels/attention.h"
#include "headwise/model/model.h"

namespace headwise {

/// The attention of some heads, in memory of its own.
class KeptHeads {
 public:
  explicit KeptHeads(const AttendedHeads& heads);
  const AttendedHeads& heads() const { return heads_; }

 private:
  AttendedHeads heads_;
  Buffer q_, k_, lse_;
  std::vector<int64_t> q_offsets_, k_offsets_;
};

/// The heads of a layer as groups, each with its part of lse. Weights are those before gates, and a
/// gate of 0 leaves none.
class LayerHeads {
 public:
  LayerHeads(const Attention& attention, const MultiHeadAttention& layer, View<const float, 2> lse);
  std::span<const AttendedHeads> groups() const { return groups_; }

 private:
  void attend_again(AttendedHeads& heads);

  std::vector<AttendedHeads> groups_;
  std::vector<Buffer> lse_;
};

/// Divergences of all pairs of some heads, summed over rows.
class DivergenceSums {
 public:
  DivergenceSums() = default;
  explicit DivergenceSums(int64_t heads)
      : heads_(heads), sums_(heads * heads), rows_(heads * heads) {}

  /// Of groups that have these heads together.
  void add(std::span<const AttendedHeads> groups);

  int64_t heads() const { return heads_; }
  double mean(int64_t a, int64_t b) const;  // NaN over no rows

 private:
  int64_t heads_ = 0;
  std::vector<double> sums_;   // [heads, heads]
  std::vector<int64_t> rows_;  // likewise
};

/// "all"; in encoder-decoders "enc", "dec", "cross".
std::string type_of(const AttentionSite& site);

}  // namespace headwise
