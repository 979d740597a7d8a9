// Heads ablated together, beside halves of them and as many heads drawn at random.
//
// Draws come from random permutations of all heads: the first heads of one permutation are a draw
// of every size, and a permutation cut down to a group gives a half of it. Groups of similar size
// share draws.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "headwise/observe/evidence.h"
#include "observe/loss_sweep.h"

namespace headwise {

struct GroupToAblate {
  std::vector<int64_t> heads{};  // among all heads of the model, each once
  bool compared = true;          // with halves and random heads
};

struct GroupAblationOptions {
  int64_t halves = 20;  // drawn of each group
  int64_t draws = 20;   // of random heads for each size

  /// Stop drawing for a group whose comparison is clear: three draws matter at least as much
  /// (Besag and Clifford 1991), or it matters more than the mean of 8 draws or more by over 4 of
  /// their standard deviations.
  bool adaptive = false;
  std::vector<int64_t> examples{};  // by their numbers, ascending; empty: all
  double passes = std::numeric_limits<double>::infinity();  // no further round of draws beyond it

  int64_t resamples = 1000;  // of the bootstrap
  uint64_t seed = 0;
  LossSweep::Progress progress{};
};

struct GroupAblations {
  std::vector<Measures> groups{};  // in the order of the groups
  double passes = 0;               // work that was spent
};

/// Measures ablation_zero of every group, with the examples as n, and of those that are compared
/// ablation_zero_half, ablation_zero_random and above_random, with the draws as n. Random heads are
/// drawn from `all`, and are never the group itself; a group of all of them gets none. A draw has
/// at least as many heads as the group, and at most a tenth more.
GroupAblations ablate_groups(LossSweep& sweep, std::span<const GroupToAblate> groups,
                             std::span<const int64_t> all, const GroupAblationOptions& options);

}  // namespace headwise
