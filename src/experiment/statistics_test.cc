// Statistics against tables and known distributions.
#include "experiment/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/core/error.h"
#include "headwise/core/random.h"

namespace headwise {
namespace {

TEST(ExperimentStatistics, StudentAgreesWithTables) {
  EXPECT_NEAR(student_quantile(0.975, 1), 12.7062047362, 1e-8);
  EXPECT_NEAR(student_quantile(0.975, 4), 2.7764451052, 1e-9);
  EXPECT_NEAR(student_quantile(0.95, 10), 1.8124611228, 1e-9);
  EXPECT_NEAR(student_quantile(0.025, 4), -2.7764451052, 1e-9);
  EXPECT_NEAR(student_cdf(1.96, 1e7), 0.9750020909873429, 1e-9);
  EXPECT_NEAR(student_cdf(-8, 30), 3.1329112378503795e-9, 1e-20);
}

TEST(ExperimentStatistics, MeanHasTheIntervalOfStudent) {
  const std::vector<double> samples = {1, 2, 3, 4, 5};
  const Estimate mean = mean_of(samples);
  EXPECT_EQ(mean.value, 3);
  EXPECT_NEAR(mean.error, std::sqrt(0.5), 1e-12);
  EXPECT_NEAR(mean.interval()->low, 3 - 2.7764451052 * std::sqrt(0.5), 1e-8);
  // t = 3 / sqrt(0.5) with 4 degrees of freedom.
  EXPECT_NEAR(mean.p_above(0), 0.006617799781841345, 1e-12);
  EXPECT_NEAR(mean.p_below(0), 1 - 0.006617799781841345, 1e-12);
  EXPECT_NEAR(mean.p_not_zero(), 2 * 0.006617799781841345, 1e-12);
  EXPECT_FALSE(mean_of(std::vector<double>{1}).interval());
  EXPECT_EQ(mean_of(std::vector<double>{1}).p_above(0), 1);
}

TEST(ExperimentStatistics, PairsAreSubtractedFirst) {
  const Estimate difference =
      paired_difference(std::vector<double>{10, 20, 30}, std::vector<double>{9, 19, 29});
  EXPECT_EQ(difference.value, 1);
  EXPECT_EQ(difference.error, 0);
  EXPECT_EQ(difference.p_above(0), 0);
  EXPECT_THROW(paired_difference(std::vector<double>{1}, std::vector<double>{1, 2}), Error);
}

TEST(ExperimentStatistics, HolmStepsDown) {
  const std::vector<double> corrected = holm(std::vector<double>{0.01, 0.04, 0.03, 0.005});
  EXPECT_NEAR(corrected[3], 0.02, 1e-15);
  EXPECT_NEAR(corrected[0], 0.03, 1e-15);
  EXPECT_NEAR(corrected[2], 0.06, 1e-15);
  EXPECT_NEAR(corrected[1], 0.06, 1e-15);  // never below one that comes before it
  EXPECT_TRUE(holm(std::vector<double>()).empty());
}

TEST(ExperimentStatistics, HolmKeepsTheFamilyAtItsLevel) {
  constexpr int kFamilies = 2000, kTests = 8;
  Random random(1);
  int wrong = 0;
  for (int family = 0; family < kFamilies; ++family) {
    std::vector<double> p;
    for (int test = 0; test < kTests; ++test) {
      std::vector<double> samples;
      for (int i = 0; i < 6; ++i) samples.push_back(random.normal());
      p.push_back(mean_of(samples).p_above(0));
    }
    const std::vector<double> corrected = holm(p);
    wrong += *std::ranges::min_element(corrected) < 0.05;
  }
  // 5 % of 2,000, and three standard deviations.
  EXPECT_LT(wrong, 100 + 3 * std::sqrt(95.));
  EXPECT_GT(wrong, 100 - 4 * std::sqrt(95.));
}

TEST(ExperimentStatistics, SignsAreCounted) {
  EXPECT_NEAR(sign_test(std::vector<double>{1, 2, 3, 4, 5}), 1. / 32, 1e-12);
  EXPECT_NEAR(sign_test(std::vector<double>{1, 2, 3, 4, -5, 0}), 6. / 32, 1e-12);
  EXPECT_EQ(sign_test(std::vector<double>{-1, -2}), 1);
  EXPECT_NEAR(binomial_tail(8, 10, 0.5), 56. / 1024, 1e-12);
  EXPECT_EQ(binomial_tail(0, 10, 0.1), 1);
}

TEST(ExperimentStatistics, SharesHaveWilsonsInterval) {
  EXPECT_NEAR(share_interval(17, 20).low, 0.6396, 1e-4);
  EXPECT_NEAR(share_interval(17, 20).high, 0.9476, 1e-4);
}

}  // namespace
}  // namespace headwise
