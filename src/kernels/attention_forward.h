// What attention.cc hands to the forward kernel: one item of work and where its results go.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_plan.h"

namespace headwise {

/// Rows [begin, end) of sequence b, on all query heads of one key/value head.
struct ForwardItem {
  int64_t b, kv_head, begin, end;
  int64_t sums;  // where its heads' begin in Observation::sums
};

/// What every head's observation shares: given by the masks and positions alone.
struct ObservedRows {
  std::vector<float> inverse_log_visible;  // [T]: 1 / ln visible, 0 if fewer than two are
  std::vector<std::vector<std::vector<int32_t>>> members;  // [B][G]: keys of each set, ascending
  HeadStatistics counts;  // the n of every running_mean; its sums are 0
};

/// The sums over an item's rows on one head; their n are in ObservedRows::counts.
struct HeadSums {
  double entropy = 0, entropy_ratio = 0, confidence = 0, distance = 0, sink = 0;
  enum Mass { kPrevious, kSelf, kNext, kWindow, kFirst, kLast, kGiven, kDiagonal, kMasses };
  std::array<double, kMasses> mass{};
  std::array<int64_t, 2 * kMaxOffset + 1> largest_at{};
  std::vector<double> key_set;

  HeadSums& operator+=(const HeadSums& other);
};

struct Observation {
  const AttentionObserver& observer;
  const ObservedRows& rows;
  std::vector<HeadSums> sums;  // of every item, one per query head of its key/value head
};

struct ForwardOutputs {
  View<float, 3> out;
  View<float, 2> lse;        // may be empty
  Observation* observation;  // may be null
};

void attention_forward_items(const AttentionPlan& plan, std::span<const ForwardItem> items,
                             const ForwardOutputs& outputs);

}  // namespace headwise
