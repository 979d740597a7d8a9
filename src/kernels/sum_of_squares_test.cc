// Sums of squares against sums in double, on every SIMD target and any number of threads.
#include "headwise/kernels/sum_of_squares.h"

#include <vector>

#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "kernels/op_testing.h"

namespace headwise {
namespace {

class SumOfSquaresOp : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, SumOfSquaresOp, testing::ValuesIn(simd_targets()), target_name);

TEST_P(SumOfSquaresOp, MatchesTheDefinition) {
  for (const int64_t size : {0, 1, 15, 33, 32768, 100003}) {
    std::vector<float> x(size);
    Random random(5);
    for (float& value : x) value = 2 * random.uniform() - 1;
    double expected = 0;
    for (const float v : x) expected += double{v} * v;
    set_threads(1);
    const double sum = sum_of_squares(x);
    EXPECT_NEAR(sum, expected, 1e-12 * expected);
    for (const int count : {2, 3, 7}) {
      set_threads(count);
      EXPECT_EQ(sum_of_squares(x), sum) << count;
    }
  }
  const std::vector<float> large(100, 1e30f);
  EXPECT_NEAR(sum_of_squares(large), 1e62, 1e56);
}

}  // namespace
}  // namespace headwise
