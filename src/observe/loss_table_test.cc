// Spearman correlation, losses of sets and their intervals, against values worked out by hand and
// against plain resampling.
#include "observe/loss_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"

namespace headwise {
namespace {

constexpr double kRounding = 1e-12;

TEST(Spearman, OfRanksWithTies) {
  const std::vector<uint32_t> once(5, 1);
  EXPECT_NEAR(
      spearman(std::vector<double>{1, 2, 3, 4, 5}, std::vector<double>{2, 4, 6, 8, 100}, once), 1,
      kRounding);
  EXPECT_NEAR(
      spearman(std::vector<double>{1, 2, 3, 4, 5}, std::vector<double>{5, 4, 3, 2, 1}, once), -1,
      kRounding);
  // scipy.stats.spearmanr([1, 2, 2, 3, 9], [3, 1, 2, 2, 5]): ranks 1 2.5 2.5 4 5 and 4 1 2.5 2.5 5
  EXPECT_NEAR(
      spearman(std::vector<double>{1, 2, 2, 3, 9}, std::vector<double>{3, 1, 2, 2, 5}, once),
      (-2 * 1 + -0.5 * -2 + -0.5 * -0.5 + 1 * -0.5 + 2 * 2) / 9.5, kRounding);
  EXPECT_TRUE(std::isnan(
      spearman(std::vector<double>{1, 1, 1, 1, 1}, std::vector<double>{3, 1, 2, 2, 5}, once)));
}

TEST(Spearman, OfNoNumbersIsNone) {
  const std::vector<uint32_t> once(4, 1);
  const std::vector<double> some = {3, 1, 2, 5};
  for (const std::vector<double>& bad : {std::vector<double>{1, NAN, 3, NAN}, {NAN, 2, 1, 4}}) {
    EXPECT_TRUE(std::isnan(spearman(bad, some, once)));
    EXPECT_TRUE(std::isnan(spearman(some, bad, once)));
  }
}

TEST(Spearman, CountsAreRepetitions) {
  const std::vector<double> a = {0.3, 0.1, 0.7, 0.7, 0.2}, b = {3, 1, 4, 1, 5};
  const std::vector<uint32_t> counts = {2, 0, 1, 3, 1};
  std::vector<double> long_a, long_b;
  for (size_t i = 0; i < a.size(); ++i) {
    long_a.insert(long_a.end(), counts[i], a[i]);
    long_b.insert(long_b.end(), counts[i], b[i]);
  }
  EXPECT_NEAR(spearman(a, b, counts),
              spearman(long_a, long_b, std::vector<uint32_t>(long_a.size(), 1)), kRounding);
}

TEST(Quantile, LiesBetweenNeighbours) {
  const std::vector<double> sorted = {1, 2, 4, 8, 16};
  EXPECT_EQ(quantile(sorted, 0), 1);
  EXPECT_EQ(quantile(sorted, 1), 16);
  EXPECT_EQ(quantile(sorted, 0.5), 4);
  EXPECT_DOUBLE_EQ(quantile(sorted, 0.1), 1.4);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

TEST(LossOfASet, IsARatioOfSumsOrOneMinusSpearman) {
  const std::vector<int64_t> tokens = {1, 3, 0, 4};
  const std::vector<double> values = {2, 3, 0, 6}, base = {1, 3, 0, 2};
  const LossStatistic ratio(LossTask::lm, tokens, {});
  EXPECT_DOUBLE_EQ(ratio.loss(values), 11. / 8);
  EXPECT_DOUBLE_EQ(ratio.change(values, base), 5. / 8);
  EXPECT_DOUBLE_EQ(ratio.loss(values, std::vector<uint32_t>{0, 2, 5, 0}), 1);
  EXPECT_TRUE(std::isnan(ratio.loss(values, std::vector<uint32_t>{0, 0, 5, 0})));
  const std::vector<float> gold = {0, 1, 2, 3};
  const std::vector<int64_t> ones(4, 1);
  const LossStatistic ranks(LossTask::similarity, ones, gold);
  EXPECT_NEAR(ranks.loss(std::vector<double>{-1, 0, 0.1, 0.9}), 0, kRounding);
  EXPECT_NEAR(
      ranks.change(std::vector<double>{0.9, 0.5, 0.1, 0}, std::vector<double>{0, 0.1, 0.5, 0.9}), 2,
      kRounding);
}

/// The same resamples, the plain way.
std::vector<double> resampled(const std::vector<double>& differences,
                              const std::vector<int64_t>& tokens, uint64_t seed) {
  std::vector<double> all;
  const auto n = static_cast<uint32_t>(tokens.size());
  for (uint64_t r = 0; r < 1000; ++r) {
    Random random(derived_seed(seed, r, 0, 0xB0075));
    double sum = 0, count = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t x = random.below(n);
      sum += differences[x];
      count += static_cast<double>(tokens[x]);
    }
    all.push_back(sum / count);
  }
  std::ranges::sort(all);
  return all;
}

TEST(Intervals, AreOfPairedResamples) {
  Random random(3);
  std::vector<int64_t> tokens;
  std::vector<double> base, small, large, difference;
  for (int i = 0; i < 200; ++i) {
    tokens.push_back(1 + random.below(9));
    base.push_back(5 * random.uniform());
    difference.push_back(random.normal() * 0.1 + 0.05);
    small.push_back(base.back());
    large.push_back(base.back() + difference.back());
  }
  const LossStatistic statistic(LossTask::lm, tokens, {});
  const std::vector<std::vector<double>> rows = {small, large};
  const int before = threads();
  for (const int count : {1, 3}) {
    set_threads(count);
    const auto intervals = statistic.intervals(rows, base, 1000, 11);
    EXPECT_EQ(intervals[0], (ConfidenceInterval{0, 0}));
    const std::vector<double> plain = resampled(difference, tokens, 11);
    EXPECT_NEAR(intervals[1]->low, quantile(plain, 0.025), kRounding);
    EXPECT_NEAR(intervals[1]->high, quantile(plain, 0.975), kRounding);
    EXPECT_LT(intervals[1]->low, statistic.change(large, base));
    EXPECT_GT(intervals[1]->high, statistic.change(large, base));
  }
  set_threads(before);
}

/// Of 400 samples of a known distribution, about 95 % of the intervals hold the mean; the bootstrap
/// of 60 values falls short by about 1 %, and chance adds 3 standard deviations of 1.1 %.
TEST(Intervals, HoldTheTruth) {
  int holds = 0;
  const std::vector<int64_t> tokens(60, 1);
  const std::vector<double> base(60);
  const LossStatistic statistic(LossTask::classify, tokens, {});
  for (uint64_t sample = 0; sample < 400; ++sample) {
    Random random(1000 + sample);
    std::vector<std::vector<double>> values(1);
    for (int i = 0; i < 60; ++i) values[0].push_back(random.normal() + 1);
    const ConfidenceInterval interval = *statistic.intervals(values, base, 1000, sample)[0];
    holds += interval.low <= 1 && 1 <= interval.high;
  }
  EXPECT_GE(holds, 400 * (0.95 - 0.01 - 0.033));
  EXPECT_LE(holds, 400 * (0.95 + 0.033));
}

TEST(Intervals, NeedTwoExamplesThatAreScored) {
  const std::vector<double> base = {1, 0, 2};
  const std::vector<std::vector<double>> rows = {{3, 0, 2}};
  for (const int64_t last : {0, 4}) {
    const std::vector<int64_t> tokens = {2, 0, last};
    const LossStatistic statistic(LossTask::lm, tokens, {});
    EXPECT_EQ(statistic.intervals(rows, base, 100, 1)[0].has_value(), last > 0);
    EXPECT_EQ(statistic.interval_of_mean(rows, base, 100, 1).has_value(), last > 0);
  }
}

TEST(Intervals, OfSpearmanAreRanked) {
  std::vector<float> gold;
  std::vector<double> base, worse;
  Random random(5);
  for (int i = 0; i < 80; ++i) {
    gold.push_back(static_cast<float>(i % 20));
    base.push_back(i % 20 + random.normal());
    worse.push_back(i % 20 + 9 * random.normal());
  }
  const std::vector<int64_t> ones(80, 1);
  const LossStatistic statistic(LossTask::similarity, ones, gold);
  const std::vector<std::vector<double>> rows = {worse};
  const ConfidenceInterval interval = *statistic.intervals(rows, base, 1000, 1)[0];
  const double change = statistic.change(worse, base);
  EXPECT_GT(interval.low, 0);
  EXPECT_LT(interval.low, change);
  EXPECT_GT(interval.high, change);
}

}  // namespace
}  // namespace headwise
