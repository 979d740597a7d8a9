// The least assignment against all there are.
#include "core/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "headwise/core/random.h"

namespace headwise {
namespace {

/// Every way to give the rows (at most as many as columns) columns of their own.
double least_of_all(View<const double, 2> costs) {
  std::vector<int64_t> columns(costs.extent(1));
  std::iota(columns.begin(), columns.end(), 0);
  double least = 1e300;
  do {
    double sum = 0;
    for (int64_t i = 0; i < costs.extent(0); ++i) sum += costs(i, columns[i]);
    least = std::min(least, sum);
  } while (std::ranges::next_permutation(columns).found);
  return least;
}

TEST(Assignment, IsTheLeastOfAll) {
  Random random(3);
  for (int64_t n = 0; n <= 5; ++n) {
    for (int64_t m = 1; m <= 6; ++m) {
      for (int trial = 0; trial < 20; ++trial) {
        std::vector<double> values(n * m);
        // Few values, so that there are ties; some below 0.
        for (double& value : values) value = trial % 2 ? random.normal() : random.below(4);
        const View<const double, 2> costs(values.data(), {n, m});
        const std::vector<int64_t> columns = least_assignment(costs);
        ASSERT_EQ(std::ssize(columns), n);
        double sum = 0;
        std::set<int64_t> taken;
        for (int64_t i = 0; i < n; ++i) {
          if (columns[i] < 0) continue;
          sum += costs(i, columns[i]);
          taken.insert(columns[i]);
        }
        EXPECT_EQ(std::ssize(taken), std::min(n, m));
        EXPECT_NEAR(sum, least_of_all(n <= m ? costs : transposed(costs)), 1e-12);
      }
    }
  }
}

TEST(Assignment, FindsAPermutation) {
  const int64_t n = 200;
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  Random random(4);
  for (int64_t i = n - 1; i > 0; --i) {
    std::swap(order[i], order[random.below(static_cast<uint32_t>(i + 1))]);
  }
  std::vector<double> values(n * n);
  for (double& value : values) value = 0.1 + random.uniform();
  for (int64_t i = 0; i < n; ++i) values[i * n + order[i]] = 0;
  EXPECT_EQ(least_assignment({values.data(), {n, n}}), order);
}

}  // namespace
}  // namespace headwise
