// When data support a plan, and when not.
#include "headwise/plan/support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "plan/neighbours.h"
#include "plan/plan_testing.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Gradients and ablations that rank all heads alike; all replaceable.
Verdict clear_verdict(int64_t heads) {
  Verdict verdict = verdict_of(grid_names(1, heads));
  for (int64_t h = 0; h < heads; ++h) {
    HeadVerdict& head = verdict.heads[h];
    head.importance.gradient = static_cast<double>(h);
    head.importance.ablation_zero = Measure{.value = 0.1 * static_cast<double>(h), .n = 50};
    head.standing = Standing::replaceable;
  }
  return verdict;
}

HeldOut better_than_random() {
  return {.examples = 50,
          .task = "lm",
          .change = 0.1,
          .random = {.draws = 10, .change = 0.4, .median = 0.3}};
}

TEST(Support, HoldsForAClearPlan) {
  const HeldOut held_out = better_than_random();
  EXPECT_THAT(reasons_against(clear_verdict(12), &held_out), IsEmpty());
  EXPECT_THAT(reasons_against(clear_verdict(12), nullptr), IsEmpty());
}

TEST(Support, NeedsHalfOfTheHeadsDecided) {
  Verdict verdict = clear_verdict(12);
  for (int h = 0; h < 6; ++h) verdict.heads[h].standing = Standing::undecided;
  EXPECT_THAT(reasons_against(verdict, nullptr), IsEmpty()) << "a half is not more than half";
  verdict.heads[6].standing = Standing::undecided;
  EXPECT_THAT(reasons_against(verdict, nullptr), ElementsAre(HasSubstr("7 of 12 heads")));
  verdict.heads[6].standing.reset();  // an ablation without an interval decides nothing
  EXPECT_THAT(reasons_against(verdict, nullptr), ElementsAre(HasSubstr("7 of 12 heads")));
}

TEST(Support, NeedsGradientsAndAblationsToAgree) {
  Verdict verdict = clear_verdict(12);
  for (int h = 0; h < 12; ++h) verdict.heads[h].importance.gradient = 5 * h % 12;
  const RankCorrelation ranks = *gradient_ablation_correlation(verdict);
  EXPECT_LT(ranks.interval.low, 0);
  EXPECT_GT(ranks.interval.high, 0);
  EXPECT_THAT(reasons_against(verdict, nullptr), ElementsAre(HasSubstr("rank the heads alike")));
  for (int h = 0; h < 12; ++h) verdict.heads[h].importance.gradient = -h;  // the other way round
  EXPECT_THAT(reasons_against(verdict, nullptr), ElementsAre(HasSubstr("rank the heads alike")));
  for (int h = 0; h < 12; ++h) verdict.heads[h].importance.gradient.reset();
  EXPECT_FALSE(gradient_ablation_correlation(verdict));
  EXPECT_THAT(reasons_against(verdict, nullptr), IsEmpty()) << "nothing to compare with";
}

/// atanh(0.5) ± 1.96 · sqrt(1.125 / 12), by hand.
TEST(Support, HasTheIntervalOfBonettAndWright) {
  Verdict verdict = clear_verdict(15);
  // Swaps that leave a correlation of 1 - 6 · 280 / (15 · 224) = 0.5.
  std::vector<double> ranks = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  const auto swap = [&](int a, int b) { std::swap(ranks[a], ranks[b]); };
  swap(0, 10);  // 2 · 100
  swap(1, 7);   // 2 · 36
  swap(2, 4);   // 2 · 4
  for (int h = 0; h < 15; ++h) verdict.heads[h].importance.gradient = ranks[h];
  const RankCorrelation found = *gradient_ablation_correlation(verdict);
  ASSERT_NEAR(found.value, 0.5, 1e-12);
  const double reach = 1.959963984540054 * std::sqrt(1.125 / 12);
  EXPECT_NEAR(found.interval.low, std::tanh(std::atanh(0.5) - reach), 1e-9);
  EXPECT_NEAR(found.interval.high, std::tanh(std::atanh(0.5) + reach), 1e-9);
}

TEST(Support, NeedsToBeBetterThanRandomHeads) {
  HeldOut held_out = better_than_random();
  held_out.change = 0.3;  // the median
  EXPECT_THAT(reasons_against(clear_verdict(12), &held_out), ElementsAre(HasSubstr("at random")));
  held_out.random.draws = 0;  // not tested
  EXPECT_THAT(reasons_against(clear_verdict(12), &held_out), IsEmpty());
  const HeldOut none{.reason = "3 examples are too few"};
  EXPECT_THAT(reasons_against(clear_verdict(12), &none), ElementsAre(HasSubstr("3 examples")));
}

TEST(Support, NeedsAblations) {
  EXPECT_THAT(reasons_against(verdict_of(grid_names(2, 2)), nullptr),
              ElementsAre(HasSubstr("no ablation")));
}

TEST(Support, IsNotAskedOfHeadsThatSomebodyNamed) {
  Plan plan{.order = "list", .reasons = {"old"}};
  assess(verdict_of(grid_names(2, 2)), plan);
  EXPECT_TRUE(plan.supported);
  EXPECT_THAT(plan.reasons, IsEmpty());
  plan.order = "gradient";
  assess(verdict_of(grid_names(2, 2)), plan);
  EXPECT_FALSE(plan.supported);
}

TEST(Neighbours, AreCountedThatStay) {
  const std::vector<std::vector<float>> line = {{1, 0}, {0.9f, 0.1f}, {0.1f, 0.9f}, {0, 1}};
  EXPECT_EQ(kept_neighbours(line, line, 1), 1);
  const std::vector<std::vector<float>> swapped = {line[0], line[2], line[1], line[3]};
  EXPECT_EQ(kept_neighbours(line, swapped, 1), 0);
  EXPECT_EQ(kept_neighbours(line, swapped, 3), 3) << "all others";
}

}  // namespace
}  // namespace headwise
