// Effects that are there, absent and open, and what follows from them.
#include "experiment/effects.h"

#include <gtest/gtest.h>

#include <vector>

namespace headwise {
namespace {

using enum Effect;

TEST(Effects, NeedSignificanceAfterCorrectionAndSize) {
  const std::vector<ClaimTest> family = {
      {.name = "large and sure",
       .figure = 0.5,
       .interval = ConfidenceInterval{0.4, 0.6},
       .p = 1e-4},
      {.name = "sure and small",
       .figure = 0.05,
       .interval = ConfidenceInterval{0.04, 0.06},
       .p = 1e-5},
      {.name = "alone significant", .figure = 0.5, .interval = ConfidenceInterval{0, 1}, .p = 0.03},
      {.name = "the other way", .figure = -1, .interval = ConfidenceInterval{-2, -0.1}, .p = 0.99},
      {.name = "one sample", .figure = 3, .p = 1}};
  EXPECT_EQ(effects_of(family, 0.1), (std::vector{there, absent, open, absent, open}));
  EXPECT_EQ(effects_of(family, std::vector{0.6, 0.05, 0.1, 0.1, 0.1}),
            (std::vector{open, there, open, absent, open}));
}

TEST(Effects, DecideTheClaim) {
  const auto decided = [](std::vector<Effect> effects) {
    Finding finding;
    decide(effects, "the task", finding);
    EXPECT_EQ(finding.depends_on.empty(), finding.outcome != ClaimOutcome::depends);
    return finding.outcome;
  };
  EXPECT_EQ(decided({there, there}), ClaimOutcome::confirmed);
  EXPECT_EQ(decided({absent, absent}), ClaimOutcome::refuted);
  EXPECT_EQ(decided({there, open, absent}), ClaimOutcome::depends);
  EXPECT_EQ(decided({there, open}), ClaimOutcome::not_decided);
  EXPECT_EQ(decided({absent, open}), ClaimOutcome::not_decided);
}

TEST(Effects, TestAboveIsOneSided) {
  const std::vector<double> samples = {0.9, 1, 1.1};
  const ClaimTest test = test_above("more", mean_of(samples));
  EXPECT_DOUBLE_EQ(test.figure, 1);
  EXPECT_LT(test.p, 0.01);
  EXPECT_GT(test_above("much more", mean_of(samples), 2).p, 0.99);
}

}  // namespace
}  // namespace headwise
