// Draws heads in rounds, until every comparison is clear.
#include "observe/group_ablation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/shuffle.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "observe/loss_table.h"

namespace headwise {
namespace {

constexpr uint32_t kPermutation = 0x6209;
constexpr int64_t kDrawsOfRound = 4;    // before comparisons are looked at again
constexpr int64_t kDrawsAbove = 3;      // that show that a group matters no more than they do
constexpr int64_t kDrawsForMean = 8;    // before a group is compared with their mean
constexpr double kDeviationsAbove = 4;  // that show that a group matters more
constexpr double kSimilarSizes = 1.1;   // the largest over the smallest

using Heads = std::vector<int64_t>;

Heads sorted(Heads heads) {
  std::ranges::sort(heads);
  return heads;
}

class GroupAblation {
 public:
  GroupAblation(LossSweep& sweep, std::span<const GroupToAblate> groups,
                std::span<const int64_t> all, const GroupAblationOptions& options)
      : sweep_(sweep),
        groups_(groups),
        all_(all),
        options_(options),
        examples_(options.examples),
        sizes_(groups.size()),
        draws_(groups.size()) {
    if (examples_.empty()) {
      examples_.resize(sweep.size());
      std::iota(examples_.begin(), examples_.end(), 0);
    }
    const std::vector<float>& gold = sweep.scorer().set().examples.all.scores;
    for (const int64_t x : examples_) {
      tokens_.push_back(sweep.scorer().tokens()[x]);
      if (!gold.empty()) gold_.push_back(gold[x]);
    }
    statistic_.emplace(sweep.scorer().set().task, tokens_, gold_);
    choose_sizes();
  }

  GroupAblations run() {
    std::vector<Heads> wanted;
    for (const GroupToAblate& group : groups_) {
      wanted.push_back(group.heads);
      for (int64_t i = 0; i < halves_of(group); ++i) wanted.push_back(half(group, i));
    }
    if (!options_.adaptive) add_draws(options_.draws, wanted);
    measure(wanted);
    for (int64_t end = kDrawsOfRound; options_.adaptive; end += kDrawsOfRound) {
      wanted.clear();
      if (!add_draws(std::min(end, options_.draws), wanted)) break;
      if (end > kDrawsOfRound && passes_ + cost(wanted) > options_.passes) {
        forget_unmeasured_draws();
        break;
      }
      measure(wanted);
    }
    return result();
  }

 private:
  using Rows = std::vector<std::vector<double>>;

  bool draws_for(const GroupToAblate& group) const {
    return group.compared && options_.draws > 0 && !group.heads.empty() &&
           group.heads.size() < all_.size();
  }

  int64_t halves_of(const GroupToAblate& group) const {
    return group.compared ? options_.halves : 0;
  }

  /// Groups of similar size get the largest of their sizes.
  void choose_sizes() {
    std::vector<size_t> order;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (draws_for(groups_[g])) order.push_back(g);
    }
    std::ranges::stable_sort(order, {}, [&](size_t g) { return groups_[g].heads.size(); });
    for (size_t begin = 0, end = 0; begin < order.size(); begin = end) {
      const auto smallest = static_cast<double>(groups_[order[begin]].heads.size());
      while (end < order.size() &&
             static_cast<double>(groups_[order[end]].heads.size()) <= kSimilarSizes * smallest) {
        ++end;
      }
      const int64_t size = std::ssize(groups_[order[end - 1]].heads);
      for (size_t i = begin; i < end; ++i) sizes_[order[i]] = size;
    }
  }

  const Heads& permutation(int64_t number) {
    while (std::ssize(permutations_) <= number) {
      Heads heads(all_.begin(), all_.end());
      Random random(derived_seed(options_.seed, permutations_.size(), 0, kPermutation));
      permute(heads, random);
      permutations_.push_back(std::move(heads));
    }
    return permutations_[number];
  }

  /// One head more rather than less of an odd number.
  Heads half(const GroupToAblate& group, int64_t number) {
    const size_t count = (group.heads.size() + 1) / 2;
    Heads heads;
    for (const int64_t head : permutation(number)) {
      const bool member = std::ranges::find(group.heads, head) != group.heads.end();
      if (member && heads.size() < count) heads.push_back(head);
    }
    return heads;
  }

  /// The next heads of the permutation where the first ones are the group itself.
  Heads draw(size_t g, int64_t number) {
    const Heads& order = permutation(number);
    Heads heads(order.begin(), order.begin() + sizes_[g]);
    if (std::ranges::is_permutation(heads, groups_[g].heads)) {
      heads.assign(order.begin() + 1, order.begin() + 1 + sizes_[g]);
    }
    return heads;
  }

  /// Asks for draws up to `end` for groups that need more; false if there are none.
  bool add_draws(int64_t end, std::vector<Heads>& wanted) {
    bool any = false;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (!draws_for(groups_[g]) || draws_[g].size() == static_cast<size_t>(end) || clear(g)) {
        continue;
      }
      for (int64_t i = std::ssize(draws_[g]); i < end; ++i) {
        wanted.push_back(draws_[g].emplace_back(draw(g, i)));
      }
      any = true;
    }
    return any;
  }

  void forget_unmeasured_draws() {
    for (std::vector<Heads>& draws : draws_) {
      std::erase_if(draws, [&](const Heads& heads) { return !rows_.contains(sorted(heads)); });
    }
  }

  double change(const Heads& heads) { return statistic_->change(row(heads), base_); }

  bool clear(size_t g) {
    if (!options_.adaptive || draws_[g].empty()) return false;
    const double whole = change(groups_[g].heads);
    int64_t above = 0;
    double sum = 0, squares = 0;
    for (const Heads& heads : draws_[g]) {
      const double value = change(heads);
      above += value >= whole;
      sum += value;
      squares += value * value;
    }
    if (above >= kDrawsAbove) return true;
    const auto n = static_cast<double>(draws_[g].size());
    const double deviation = std::sqrt(std::max(0., squares - sum * sum / n) / (n - 1));
    return std::ssize(draws_[g]) >= kDrawsForMean && whole > sum / n + kDeviationsAbove * deviation;
  }

  /// Those whose losses are not known yet, each once.
  std::vector<Ablation> missing(const std::vector<Heads>& wanted) const {
    std::vector<Heads> sets;
    for (const Heads& heads : wanted) {
      if (Heads set = sorted(heads); !rows_.contains(set)) sets.push_back(std::move(set));
    }
    std::ranges::sort(sets);
    sets.erase(std::ranges::unique(sets).begin(), sets.end());
    std::vector<Ablation> ablations;
    for (Heads& set : sets) ablations.push_back({.heads = std::move(set)});
    return ablations;
  }

  double cost(const std::vector<Heads>& wanted) const {
    return sweep_.passes(missing(wanted), examples_);
  }

  void measure(const std::vector<Heads>& wanted) {
    const std::vector<Ablation> ablations = missing(wanted);
    if (ablations.empty() && !base_.empty()) return;
    passes_ += sweep_.passes(ablations, examples_);
    SweepValues values = sweep_.run(ablations, examples_, options_.progress);
    if (base_.empty()) base_ = std::move(values.base);
    for (size_t a = 0; a < ablations.size(); ++a) {
      rows_.emplace(ablations[a].heads, std::move(values.ablated[a]));
    }
  }

  const std::vector<double>& row(const Heads& heads) const { return rows_.at(sorted(heads)); }

  Measure mean_of(const std::vector<Heads>& draws) {
    Rows rows;
    double sum = 0;
    for (const Heads& heads : draws) {
      rows.push_back(row(heads));
      sum += change(heads);
    }
    return {
        .value = sum / static_cast<double>(draws.size()),
        .n = std::ssize(draws),
        .interval = statistic_->interval_of_mean(rows, base_, options_.resamples, options_.seed)};
  }

  GroupAblations result() {
    GroupAblations result{.passes = passes_};
    Rows wholes;
    for (const GroupToAblate& group : groups_) wholes.push_back(row(group.heads));
    const auto intervals = statistic_->intervals(wholes, base_, options_.resamples, options_.seed);
    for (size_t g = 0; g < groups_.size(); ++g) {
      Measures& to = result.groups.emplace_back();
      const double whole = change(groups_[g].heads);
      to.add("ablation_zero",
             {.value = whole, .n = std::ssize(examples_), .interval = intervals[g]});
      std::vector<Heads> halves;
      for (int64_t i = 0; i < halves_of(groups_[g]); ++i) halves.push_back(half(groups_[g], i));
      if (!halves.empty()) to.add("ablation_zero_half", mean_of(halves));
      if (draws_[g].empty()) continue;
      to.add("ablation_zero_random", mean_of(draws_[g]));
      const auto below = std::ranges::count_if(
          draws_[g], [&](const Heads& heads) { return change(heads) < whole; });
      to.add("above_random",
             {.value = static_cast<double>(below) / static_cast<double>(draws_[g].size()),
              .n = std::ssize(draws_[g])});
    }
    return result;
  }

  LossSweep& sweep_;
  std::span<const GroupToAblate> groups_;
  std::span<const int64_t> all_;
  const GroupAblationOptions& options_;
  std::vector<int64_t> examples_, tokens_;
  std::vector<float> gold_;
  std::optional<LossStatistic> statistic_;
  std::vector<int64_t> sizes_;             // [groups], of draws
  std::vector<std::vector<Heads>> draws_;  // [groups]
  std::vector<Heads> permutations_;
  std::vector<double> base_;
  std::map<Heads, std::vector<double>> rows_;  // losses of examples, by the heads that are ablated
  double passes_ = 0;
};

}  // namespace

GroupAblations ablate_groups(LossSweep& sweep, std::span<const GroupToAblate> groups,
                             std::span<const int64_t> all, const GroupAblationOptions& options) {
  return GroupAblation(sweep, groups, all, options).run();
}

}  // namespace headwise
