// The search for a speed-up, on predictions that are off.
#include "plan/speed_search.h"

#include <gtest/gtest.h>

#include <vector>

namespace headwise {
namespace {

constexpr int64_t kSteps = 60;

double predicted(int64_t steps) { return 1 + 0.01 * static_cast<double>(steps); }

/// Steps of 1 % that are really this many times as good.
class Searched {
 public:
  Searched(double wanted, double factor, int64_t first = 0) {
    const SpeedSearch search{.wanted = wanted,
                             .first = first,
                             .can_go = [](int64_t steps) { return steps <= kSteps; },
                             .predicted = predicted,
                             .measured =
                                 [&](int64_t steps) {
                                   measured.push_back(steps);
                                   return 1 + factor * (predicted(steps) - 1);
                                 }};
    found = search_speed(search, fastest);
  }
  std::optional<FoundSpeed> found{};
  std::vector<int64_t> measured{};
  double fastest = 0;
};

TEST(SpeedSearch, TakesTheFewestStepsThatAreFastEnough) {
  for (const double factor : {0.5, 0.8, 1., 1.3, 2.}) {
    SCOPED_TRACE(factor);
    for (const int64_t right : {1, 7, 25}) {
      const Searched searched(1 + factor * (predicted(right) - 1) - 1e-9, factor);
      ASSERT_TRUE(searched.found);
      EXPECT_EQ(searched.found->steps, right);
      EXPECT_NEAR(searched.found->speedup, 1 + factor * (predicted(right) - 1), 1e-12);
      EXPECT_LE(searched.measured.size(), 8u);
    }
  }
}

TEST(SpeedSearch, AsksOnceIfPredictionsAreRight) {
  EXPECT_EQ(Searched(1.2 - 1e-9, 1).measured, (std::vector<int64_t>{20}));
}

TEST(SpeedSearch, TakesTheStepsThatItMust) { EXPECT_EQ(Searched(1.1, 1, 30).found->steps, 30); }

TEST(SpeedSearch, SaysHowFastItGetsAtMost) {
  const Searched searched(1.5, 0.5);
  EXPECT_FALSE(searched.found);
  EXPECT_NEAR(searched.fastest, 1.3, 1e-12);
}

}  // namespace
}  // namespace headwise
