// Finds the next heads to go, one by one or evenly.
#include "plan/pruning_state.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace headwise {
namespace {

constexpr double kStays = std::numeric_limits<double>::infinity();

/// Where each value stands among all; NaN stays.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int64_t head) { return std::isnan(values[head]); });
  std::ranges::stable_sort(order, {}, [&](int64_t head) { return values[head]; });
  std::vector<double> ranks(values.size(), kStays);
  for (size_t i = 0; i < order.size(); ++i) ranks[order[i]] = static_cast<double>(i);
  return ranks;
}

}  // namespace

/// A head, or heads of several attentions that go together.
struct PruningState::Column {
  int32_t kv_head = 0;
  std::vector<int64_t> heads{};
  double rank = 0;     // the mean of its heads
  bool whole = false;  // every attention still has its head
};

/// What every attention of a kind has: key/value heads, and heads of each.
struct PruningState::Groups {
  int64_t count = 0, heads = 0;
  bool operator==(const Groups&) const = default;
};

struct PruningState::Step {
  std::vector<int64_t> heads{};
  int64_t too_many = 0;
  double rank = 0;  // their mean

  bool better_than(const Step& other) const {
    return std::pair(too_many, rank) < std::pair(other.too_many, other.rank);
  }
};

PruningState::PruningState(const HeadLayout& layout, Constraints constraints)
    : layout_(layout), constraints_(std::move(constraints)), kept_(layout.heads(), 1) {
  constraints_.stays.resize(layout.heads());
  std::map<std::pair<Side, AttentionKind>, std::vector<int64_t>> kinds;
  for (int64_t s = 0; s < std::ssize(layout.sites); ++s) {
    const AttentionSite& site = layout.sites[s];
    kinds[layout.shared_bias ? std::pair(Side::encoder, AttentionKind::self)
                             : std::pair(site.side, site.kind)]
        .push_back(s);
  }
  for (auto& [kind, sites] : kinds) kinds_.push_back(std::move(sites));
}

int64_t PruningState::left() const { return std::ranges::count(kept_, 1); }

int64_t PruningState::left_in(int64_t site) const {
  const AttentionSite& at = layout_.sites[site];
  const auto begin = kept_.begin() + at.first;
  return std::count(begin, begin + std::ssize(at.heads), 1);
}

bool PruningState::may_go(int64_t head) const {
  return kept_[head] && !constraints_.stays[head] &&
         left_in(layout_.site(head)) > constraints_.at_least;
}

void PruningState::drop(std::span<const int64_t> heads) {
  for (const int64_t head : heads) kept_[head] = 0;
}

std::vector<int64_t> PruningState::next(std::span<const double> values, int64_t enough) const {
  std::vector<double> ranks = ranks_of(values);
  for (int64_t head = 0; head < layout_.heads(); ++head) {
    if (constraints_.stays[head]) ranks[head] = kStays;
  }
  if (!constraints_.uniform) {
    const int64_t head = next_single(ranks);
    return head < 0 ? std::vector<int64_t>() : std::vector{head};
  }
  std::optional<Step> best;
  for (const std::vector<int64_t>& kind : kinds_) {
    const std::vector<Columns> blocks = blocks_of(kind, ranks);
    const Groups now = common_groups(blocks);
    if (!level(blocks, now)) {  // before anything else goes
      best.reset();
      consider(blocks, now, enough, best);
      break;
    }
    if (now.count > 0) consider(blocks, {now.count - 1, now.heads}, enough, best);
    if (now.heads > 1) consider(blocks, {now.count, now.heads - 1}, enough, best);
  }
  return best ? best->heads : std::vector<int64_t>();
}

bool PruningState::level() const {
  const std::vector<double> any(layout_.heads());
  return !constraints_.uniform || std::ranges::all_of(kinds_, [&](const auto& kind) {
    const std::vector<Columns> blocks = blocks_of(kind, any);
    return level(blocks, common_groups(blocks));
  });
}

bool PruningState::level(const std::vector<Columns>& blocks, const Groups& groups) {
  return std::ranges::all_of(blocks, [&](const Columns& columns) {
    return std::ssize(columns) == groups.count * groups.heads &&
           std::ranges::all_of(columns, &Column::whole);
  });
}

int64_t PruningState::next_single(Ranks ranks) const {
  int64_t lowest = -1;
  for (int64_t s = 0; s < std::ssize(layout_.sites); ++s) {
    if (left_in(s) <= constraints_.at_least) continue;
    const AttentionSite& site = layout_.sites[s];
    for (int64_t head = site.first; head < site.first + std::ssize(site.heads); ++head) {
      if (!kept_[head] || ranks[head] == kStays) continue;
      if (lowest < 0 || ranks[head] < ranks[lowest]) lowest = head;
    }
  }
  return lowest;
}

/// The heads of each attention of a kind, and together those of attentions that lose the same ones.
std::vector<PruningState::Columns> PruningState::blocks_of(const std::vector<int64_t>& kind,
                                                           Ranks ranks) const {
  std::map<std::pair<Side, int64_t>, std::vector<int64_t>> sites;
  for (const int64_t s : kind) {
    const AttentionSite& site = layout_.sites[s];
    const bool shares = layout_.shared_bias && site.kind == AttentionKind::self;
    sites[{site.side, shares ? -1 : s}].push_back(s);
  }
  std::vector<Columns> blocks;
  for (const auto& [key, block] : sites) blocks.push_back(columns(block, ranks));
  return blocks;
}

PruningState::Columns PruningState::columns(const std::vector<int64_t>& block, Ranks ranks) const {
  std::map<int32_t, Column> columns;  // by the names of heads
  for (const int64_t s : block) {
    const AttentionSite& site = layout_.sites[s];
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      const int64_t head = site.first + h;
      if (!kept_[head]) continue;
      Column& column = columns[site.heads[h]];
      column.kv_head = layout_.kv_heads[head];
      column.heads.push_back(head);
      column.rank += ranks[head];
    }
  }
  Columns result;
  for (auto& [name, column] : columns) {
    column.rank /= static_cast<double>(column.heads.size());
    column.whole = column.heads.size() == block.size();
    result.push_back(std::move(column));
  }
  return result;
}

/// The most that all have.
PruningState::Groups PruningState::common_groups(const std::vector<Columns>& blocks) {
  std::vector<std::vector<int64_t>> sizes;
  Groups common{.count = INT64_MAX, .heads = INT64_MAX};
  for (const Columns& columns : blocks) {
    std::map<int32_t, int64_t> heads;
    for (const Column& column : columns) {
      if (column.whole) ++heads[column.kv_head];
    }
    std::vector<int64_t>& of_block = sizes.emplace_back();
    for (const auto& [kv_head, count] : heads) of_block.push_back(count);
    std::ranges::sort(of_block, std::greater());
    common.count = std::min(common.count, std::ssize(of_block));
  }
  if (common.count == 0) return {.count = 0, .heads = 1};
  for (const std::vector<int64_t>& of_block : sizes) {
    common.heads = std::min(common.heads, of_block[common.count - 1]);
  }
  return common;
}

/// The step to so many groups in every block, if it may be taken and is better than the best. Of
/// the groups that are large enough, those stay whose best heads rank highest.
void PruningState::consider(const std::vector<Columns>& blocks, const Groups& wanted,
                            int64_t enough, std::optional<Step>& best) const {
  if (wanted.count * wanted.heads < constraints_.at_least) return;
  Step step;
  double sum = 0;
  for (const Columns& columns : blocks) {
    std::map<int32_t, std::vector<const Column*>> groups;
    for (const Column& column : columns) {
      if (column.whole) groups[column.kv_head].push_back(&column);
    }
    std::vector<std::pair<double, std::vector<const Column*>>> large;
    for (auto& [kv_head, group] : groups) {
      if (std::ssize(group) < wanted.heads) continue;
      std::ranges::stable_sort(group, std::greater(), &Column::rank);
      group.resize(wanted.heads);
      double total = 0;
      for (const Column* column : group) total += column->rank;
      large.emplace_back(total, group);
    }
    std::ranges::stable_sort(large, std::greater(), [](const auto& group) { return group.first; });
    large.resize(std::min<size_t>(large.size(), wanted.count));
    std::vector<const Column*> stay;
    for (const auto& [total, group] : large) stay.insert(stay.end(), group.begin(), group.end());
    std::vector<const Column*> go;
    for (const Column& column : columns) {
      if (std::ranges::find(stay, &column) == stay.end()) go.push_back(&column);
    }
    std::ranges::stable_sort(go, {}, &Column::rank);
    for (const Column* column : go) {
      if (column->rank == kStays) return;
      step.heads.insert(step.heads.end(), column->heads.begin(), column->heads.end());
      sum += column->rank * static_cast<double>(column->heads.size());
    }
  }
  if (!step.heads.empty()) step.rank = sum / static_cast<double>(step.heads.size());
  step.too_many = std::max<int64_t>(0, enough - (left() - std::ssize(step.heads)));
  if (!best || step.better_than(*best)) best = std::move(step);
}

}  // namespace headwise
