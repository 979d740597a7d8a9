// Ridge regression against equations that are solved another way.
#include "observe/ridge.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/core/random.h"

namespace headwise {
namespace {

/// The residual of the normal equations with an unpunished bias: for each class,
/// Σ (w·x + b - y) x + λ w = 0 and Σ (w·x + b - y) = 0.
TEST(Ridge, SolvesTheNormalEquations) {
  constexpr int64_t kRows = 203, D = 7, C = 3;
  constexpr double kStrength = 0.3;
  Random random(3);
  std::vector<double> x(kRows * D);
  std::vector<int32_t> classes(kRows);
  for (int64_t r = 0; r < kRows; ++r) {
    classes[r] = static_cast<int32_t>(random.below(C));
    for (int64_t d = 0; d < D; ++d) {
      x[r * D + d] = 5 + static_cast<double>(d + 1) * random.normal() + classes[r];
    }
  }
  RidgeSums sums(D, C);
  sums.add(std::span(x).first(61 * D), std::span(classes).first(61));
  sums.add(std::span(x).subspan(61 * D), std::span(classes).subspan(61));
  const RidgeClassifier classifier(sums, kStrength);

  std::vector<double> zero(D), bias(C), values(C);
  classifier(zero, bias);
  double variance = 0;
  for (int64_t d = 0; d < D; ++d) {
    double mean = 0;
    for (int64_t r = 0; r < kRows; ++r) mean += x[r * D + d] / kRows;
    for (int64_t r = 0; r < kRows; ++r) variance += std::pow(x[r * D + d] - mean, 2);
  }
  const double lambda = kStrength * variance / D;
  for (int64_t c = 0; c < C; ++c) {
    std::vector<double> residual(D + 1);
    for (int64_t r = 0; r < kRows; ++r) {
      const auto row = std::span(x).subspan(r * D, D);
      classifier(row, values);
      const double error = values[c] - (classes[r] == c ? 1 : 0);
      for (int64_t d = 0; d < D; ++d) residual[d] += error * row[d];
      residual[D] += error;
    }
    for (int64_t d = 0; d < D; ++d) {
      std::vector<double> unit(D);
      unit[d] = 1;
      classifier(unit, values);
      residual[d] += lambda * (values[c] - bias[c]);
    }
    // Sums of 200 terms of about 10 each, in double.
    for (const double one : residual) EXPECT_NEAR(one, 0, 1e-10);
  }
}

TEST(Ridge, OfRowsThatDoNotDifferKnowsOnlyHowOftenClassesAre) {
  RidgeSums sums(2, 3);
  const std::vector<double> rows = {1e-3f, 4, 1e-3f, 4, 1e-3f, 4, 1e-3f, 4};
  const std::vector<int32_t> classes = {2, 0, 2, 2};
  sums.add(rows, classes);
  std::vector<double> values(3);
  RidgeClassifier(sums, 0.01)(std::vector<double>{8, -7}, values);
  EXPECT_EQ(values, (std::vector<double>{0.25, 0, 0.75}));
  RidgeClassifier(RidgeSums(2, 3), 0.01)(std::vector<double>{8, -7}, values);
  EXPECT_EQ(values, (std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace headwise
