// What constraints let go: properties of every path, over layouts and orders by chance.
#include "plan/pruning_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "headwise/core/random.h"
#include "plan/plan_testing.h"

namespace headwise {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct RandomCase {
  HeadLayout layout;
  PruningState::Constraints constraints;
  std::vector<double> values;
};

/// An encoder, or an encoder-decoder; heads in groups that share keys; some heads gone already.
HeadLayout random_layout(Random& random, bool uniform) {
  std::vector<std::string> kinds = {""};
  if (random.below(3) == 0) kinds = {"enc.", "dec.", "cross."};
  const uint32_t group = 1 + random.below(3), kv_heads = 1 + random.below(4);
  const uint32_t layers = 1 + random.below(4);
  std::vector<std::string> names;
  std::vector<int32_t> kv;
  const bool pruned = random.below(3) == 0;
  const bool shared_bias = group == 1 && uniform && random.below(3) == 0;
  for (const std::string& kind : kinds) {
    for (uint32_t l = 0; l < layers; ++l) {
      for (uint32_t h = 0; h < group * kv_heads; ++h) {
        if (pruned && h > 0 && random.below(4) == 0) continue;
        names.push_back(kind + "L" + std::to_string(l) + ".H" + std::to_string(h));
        kv.push_back(static_cast<int32_t>(h / group));
      }
    }
  }
  HeadLayout layout(verdict_of(names));
  layout.kv_heads = kv;
  layout.shared_bias = shared_bias;
  return layout;
}

RandomCase random_case(uint64_t seed, bool uniform) {
  Random random(seed);
  RandomCase c{.layout = random_layout(random, uniform),
               .constraints = {.at_least = random.below(3), .uniform = uniform},
               .values = {}};
  for (int64_t h = 0; h < c.layout.heads(); ++h) {
    c.constraints.stays.push_back(random.below(12) == 0);
    c.values.push_back(random.below(20) == 0 ? kNaN : std::round(8 * random.uniform()));
  }
  return c;
}

std::vector<int64_t> counts(const HeadLayout& layout, std::span<const uint8_t> kept) {
  std::vector<int64_t> counts;
  for (const AttentionSite& site : layout.sites) {
    counts.push_back(std::ranges::count(kept.subspan(site.first, site.heads.size()), 1));
  }
  return counts;
}

/// The sizes of groups that share keys, and the names of heads, of an attention.
std::map<int32_t, int64_t> groups(const HeadLayout& layout, const AttentionSite& site,
                                  std::span<const uint8_t> kept) {
  std::map<int32_t, int64_t> groups;
  for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
    if (kept[site.first + h]) ++groups[layout.kv_heads[site.first + h]];
  }
  return groups;
}

void expect_uniform(const HeadLayout& layout, std::span<const uint8_t> kept) {
  std::map<std::string, std::pair<size_t, std::set<int64_t>>> first;
  std::map<Side, std::set<int32_t>> names;
  for (const AttentionSite& site : layout.sites) {
    const auto all = groups(layout, site, kept);
    std::set<int64_t> sizes;
    for (const auto& [kv, size] : all) sizes.insert(size);
    EXPECT_LE(sizes.size(), 1) << site.name;
    const std::string kind = layout.shared_bias ? "" : site.name.substr(0, site.name.find('L'));
    const auto [at, fresh] = first.emplace(kind, std::pair(all.size(), sizes));
    EXPECT_EQ(at->second, std::pair(all.size(), sizes)) << site.name;
    if (!layout.shared_bias || site.kind == AttentionKind::cross) continue;
    std::set<int32_t> left;
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      if (kept[site.first + h]) left.insert(site.heads[h]);
    }
    EXPECT_EQ(names.emplace(site.side, left).first->second, left) << site.name;
  }
}

TEST(PruningState, EveryStepHonoursTheConstraints) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    SCOPED_TRACE(seed);
    const bool uniform = seed % 2 == 1;
    const RandomCase c = random_case(seed, uniform);
    PruningState state(c.layout, c.constraints);
    const std::vector<int64_t> before = counts(c.layout, state.kept());
    int64_t left = c.layout.heads();
    for (bool more = true; more;) {
      const std::vector<int64_t> step = state.next(c.values);
      more = !step.empty();
      for (const int64_t head : step) {
        EXPECT_TRUE(state.kept()[head]);
        EXPECT_FALSE(c.constraints.stays[head]);
        EXPECT_FALSE(std::isnan(c.values[head]));
      }
      EXPECT_TRUE(uniform || step.size() <= 1);
      state.drop(step);
      left -= std::ssize(step);
      ASSERT_EQ(state.left(), left) << "a head went twice";
      const std::vector<int64_t> now = counts(c.layout, state.kept());
      for (size_t s = 0; s < now.size(); ++s) {
        EXPECT_GE(now[s], std::min(before[s], c.constraints.at_least));
      }
      if (state.level() && uniform) expect_uniform(c.layout, state.kept());
    }
  }
}

TEST(PruningState, SingleHeadsGoInOrderAsFarAsTheyMay) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const RandomCase c = random_case(2 * seed, false);
    PruningState state(c.layout, c.constraints);
    for (;;) {
      // The plain way: the first of the lowest that may go.
      int64_t expected = -1;
      for (int64_t head = 0; head < c.layout.heads(); ++head) {
        if (!state.may_go(head) || std::isnan(c.values[head])) continue;
        if (expected < 0 || c.values[head] < c.values[expected]) expected = head;
      }
      const std::vector<int64_t> step = state.next(c.values);
      EXPECT_EQ(step, expected < 0 ? std::vector<int64_t>() : std::vector{expected});
      if (step.empty() || expected < 0) break;
      state.drop(step);
    }
  }
}

TEST(PruningState, UniformTakesTheLowestOfEveryLayer) {
  const HeadLayout layout(verdict_of(grid_names(2, 3)));
  PruningState state(layout, {.uniform = true});
  const std::vector<double> values = {3, 1, 2, 7, 9, 8};
  EXPECT_EQ(state.next(values), (std::vector<int64_t>{1, 3}));
  state.drop(state.next(values));
  EXPECT_EQ(state.next(values), (std::vector<int64_t>{2, 5}));
  state.drop(state.next(values));
  EXPECT_TRUE(state.next(values).empty());  // one stays
}

TEST(PruningState, SharedKeysGoWholeOrAreThinnedEvenly) {
  HeadLayout layout(verdict_of(grid_names(1, 4)));
  layout.kv_heads = {0, 0, 1, 1};
  const PruningState state(layout, {.uniform = true});
  EXPECT_EQ(state.next(std::vector<double>{0, 1, 8, 9}), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(state.next(std::vector<double>{0, 9, 8, 1}), (std::vector<int64_t>{0, 3}));
}

TEST(PruningState, StepsDoNotOvershootIfTheyNeedNot) {
  HeadLayout layout(verdict_of(grid_names(1, 6)));
  layout.kv_heads = {0, 0, 1, 1, 2, 2};
  const PruningState state(layout, {.uniform = true});
  const std::vector<double> values = {0, 9, 1, 8, 2, 7};
  EXPECT_EQ(state.next(values), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(state.next(values, 3), (std::vector<int64_t>{0, 2, 4}));
  EXPECT_EQ(state.next(values, 4), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(state.next(values, 5), (std::vector<int64_t>{4, 5}));
}

TEST(PruningState, SharedBiasesLoseTheSameHeads) {
  HeadLayout layout(verdict_of(grid_names(2, 3)));
  layout.shared_bias = true;
  const PruningState state(layout, {.uniform = true});
  EXPECT_EQ(state.next(std::vector<double>{0, 2, 9, 8, 3, 7}), (std::vector<int64_t>{1, 4}));
}

TEST(PruningState, LevelsWhatWasPruned) {
  const HeadLayout layout(verdict_of({"L0.H0", "L0.H1", "L0.H2", "L1.H5"}));
  PruningState state(layout, {.uniform = true});
  EXPECT_FALSE(state.level());
  EXPECT_EQ(state.next(std::vector<double>{3, 2, 1, 0}), (std::vector<int64_t>{2, 1}));
  state.drop(state.next(std::vector<double>{3, 2, 1, 0}));
  EXPECT_TRUE(state.level());
}

}  // namespace
}  // namespace headwise
