// The heads left during step-by-step removal, and the next ones that the constraints allow.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/head_layout.h"

namespace headwise {

class PruningState {
 public:
  struct Constraints {
    int64_t at_least = 1;          // heads that stay in every attention
    bool uniform = false;          // see next
    std::vector<uint8_t> stays{};  // [heads], those that never go; empty: any may
  };

  /// The layout must outlive it.
  PruningState(const HeadLayout& layout, Constraints constraints);

  /// The heads that go together in the next step; none: no more may go. values [heads]: the lowest
  /// goes first, NaN never.
  ///
  /// Without `uniform`, one head. With it, steps leave every attention of a kind with as many
  /// key/value heads as the others, and each of those with as many heads; the first step may have
  /// to level what was not so. Where attentions share a bias, they lose the same heads. Of the
  /// steps that are possible, the one whose heads rank lowest in the mean; but before that, one
  /// that leaves `enough` heads, or as few less as can be.
  std::vector<int64_t> next(std::span<const double> values, int64_t enough = 0) const;

  /// Whether a single head may go.
  bool may_go(int64_t head) const;

  void drop(std::span<const int64_t> heads);

  /// Whether what is left is uniform, if it has to be.
  bool level() const;

  std::span<const uint8_t> kept() const { return kept_; }  // [heads]
  int64_t left() const;
  int64_t left_in(int64_t site) const;

 private:
  struct Column;
  struct Groups;
  struct Step;
  using Ranks = std::span<const double>;

  using Columns = std::vector<Column>;

  int64_t next_single(Ranks ranks) const;
  std::vector<Columns> blocks_of(const std::vector<int64_t>& kind, Ranks ranks) const;
  Columns columns(const std::vector<int64_t>& block, Ranks ranks) const;
  static Groups common_groups(const std::vector<Columns>& blocks);
  static bool level(const std::vector<Columns>& blocks, const Groups& groups);
  void consider(const std::vector<Columns>& blocks, const Groups& wanted, int64_t enough,
                std::optional<Step>& best) const;

  const HeadLayout& layout_;
  Constraints constraints_;
  std::vector<uint8_t> kept_;
  std::vector<std::vector<int64_t>> kinds_;  // sites that keep the same number of heads
};

}  // namespace headwise
