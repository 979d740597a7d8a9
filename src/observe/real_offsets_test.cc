// Weights of probe items: as if words were as far apart as in real text.
#include "observe/real_offsets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace headwise {
namespace {

using testing::Each;
using testing::Ge;

/// Three in ten words before, seven in ten behind.
RealOffsets some_offsets() {
  RealOffsets real{.question = "x/to_head", .best = 5000};
  real.share[8] = 3000;   // -1
  real.share[9] = 5000;   // 1
  real.share[12] = 2000;  // 4
  return real;
}

std::vector<double> weights_of(const std::vector<int64_t>& offsets) {
  std::vector<double> shares;
  for (const int64_t weight : offset_weights(some_offsets(), offsets)) {
    shares.push_back(static_cast<double>(weight) / kWeightOne);
  }
  return shares;
}

TEST(RealOffsets, AreOfEveryRelationOfProbesButCompounds) {
  for (const char* name :
       {"det", "nsubj", "obj", "iobj", "amod", "nummod", "case", "nmod", "obl", "aux", "advmod",
        "mark", "advcl", "conj", "cc", "nmod:poss", "acl:relcl"}) {
    for (const char* direction : {"/to_head", "/to_dependent"}) {
      const RealOffsets* const real = real_offsets(std::string(name) + direction);
      ASSERT_NE(real, nullptr) << name;
      EXPECT_THAT(real->share, Each(Ge(0)));
      EXPECT_NEAR(std::accumulate(real->share.begin(), real->share.end(), 0), 10000, 10);
      EXPECT_GT(real->best, 0);
      EXPECT_LT(real->best, 10000);
    }
  }
  EXPECT_EQ(real_offsets("compound/to_head"), nullptr);
  EXPECT_EQ(real_offsets("flat/to_head"), nullptr);
}

TEST(OffsetWeights, AreTheSharesOfRealText) {
  const std::vector<double> weights = weights_of({-1, -1, -1, -1, 1, 1, 1, 1, 1, 4, 4, 4, 4});
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(weights[i], 0.3 / 4, 1e-8);
  for (int i = 4; i < 9; ++i) EXPECT_NEAR(weights[i], 0.5 / 5, 1e-8);
  for (int i = 9; i < 13; ++i) EXPECT_NEAR(weights[i], 0.2 / 4, 1e-8);
}

TEST(OffsetWeights, LetTheNearestStandForDistancesThatAreRare) {
  // Two items are 4 ahead: the nearest others on that side stand for that distance with them.
  const std::vector<double> weights = weights_of({1, 1, 1, 1, 4, 4, 30, 30, 30});
  EXPECT_NEAR(weights[0], 0.5 / 4 + 0.2 / 6, 1e-8);
  EXPECT_NEAR(weights[4], 0.2 / 6, 1e-8);
  EXPECT_EQ(weights[6], 0);
  EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.), 0.7, 1e-8);  // none before
}

}  // namespace
}  // namespace headwise
