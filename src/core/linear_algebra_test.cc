// Matrices whose spaces, singular values and eigenvalues are known, and laws for those drawn.
#include "core/linear_algebra.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "headwise/core/random.h"

namespace headwise {
namespace {

using Complex = std::complex<double>;

DoubleMatrix matrix(int64_t rows, int64_t columns, std::vector<double> values) {
  DoubleMatrix result(rows, columns);
  result.values = std::move(values);
  return result;
}

DoubleMatrix drawn(int64_t rows, int64_t columns, uint64_t seed) {
  Random random(seed);
  DoubleMatrix result(rows, columns);
  for (double& value : result.values) value = random.normal();
  return result;
}

/// The rows, multiplied by 1, share, share², …
DoubleMatrix shrinking(DoubleMatrix rows, double share) {
  for (int64_t i = 0; i < rows.rows; ++i) {
    for (int64_t j = 0; j < rows.columns; ++j) rows(i, j) *= std::pow(share, i);
  }
  return rows;
}

void expect_near(const DoubleMatrix& got, const DoubleMatrix& expected, double tolerance) {
  ASSERT_EQ(got.rows, expected.rows);
  ASSERT_EQ(got.columns, expected.columns);
  for (size_t i = 0; i < got.values.size(); ++i) {
    EXPECT_NEAR(got.values[i], expected.values[i], tolerance) << i;
  }
}

DoubleMatrix identity(int64_t n) {
  DoubleMatrix result(n, n);
  for (int64_t i = 0; i < n; ++i) result(i, i) = 1;
  return result;
}

/// By real part, then by imaginary part.
std::vector<Complex> sorted(std::vector<Complex> values) {
  std::ranges::sort(values, {}, [](Complex x) { return std::pair(x.real(), x.imag()); });
  return values;
}

void expect_eigenvalues(const DoubleMatrix& square, std::vector<Complex> expected,
                        double tolerance) {
  const std::vector<Complex> got = sorted(eigenvalues(square));
  expected = sorted(expected);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(std::abs(got[i] - expected[i]), 0, tolerance) << got[i] << ' ' << expected[i];
  }
}

TEST(LinearAlgebra, MultipliesAnyWayRound) {
  const DoubleMatrix a = matrix(2, 3, {1, 2, 3, 4, 5, 6}), b = matrix(2, 3, {1, 0, -1, 2, 1, 0});
  expect_near(product_with_transposed(a, b), matrix(2, 2, {-2, 4, -2, 13}), 0);
  expect_near(transposed_product(a, b), matrix(3, 3, {9, 4, -1, 12, 5, -2, 15, 6, -3}), 0);
  expect_near(product(a, matrix(3, 1, {1, 1, -1})), matrix(2, 1, {0, 3}), 0);
  EXPECT_EQ(inner_product(a, b), 1 - 3 + 8 + 5);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const View<const float, 2> view(values.data(), {2, 3});
  expect_near(DoubleMatrix(view), a, 0);
  expect_near(DoubleMatrix(transposed(view)), matrix(3, 2, {1, 4, 2, 5, 3, 6}), 0);
}

TEST(LinearAlgebra, SpacesHaveOrthonormalBasesThatGiveTheRowsBack) {
  struct Case {
    DoubleMatrix rows;
    int64_t rank;
  };
  DoubleMatrix twice = drawn(6, 20, 3);
  for (int64_t j = 0; j < 20; ++j) twice(4, j) = 2 * twice(1, j) - twice(0, j);
  for (const Case& one :
       {Case{drawn(6, 20, 1), 6}, Case{drawn(6, 6, 2), 6}, Case{drawn(9, 4, 2), 4},
        Case{shrinking(drawn(6, 20, 1), 0.1), 6},   // squares of 1e-10
        Case{shrinking(drawn(6, 20, 1), 1e-2), 6},  // the slower way
        Case{twice, 5}, Case{DoubleMatrix(3, 5), 0}}) {
    const RowSpace space = row_space(one.rows);
    ASSERT_EQ(space.rank(), one.rank);
    expect_near(product_with_transposed(space.basis, space.basis), identity(one.rank), 1e-5);
    expect_near(product(space.factor, space.basis), one.rows, 1e-13 * 20);
  }
}

TEST(LinearAlgebra, SmallestAngles) {
  const auto angle = [](const DoubleMatrix& a, const DoubleMatrix& b) {
    const RowSpace x = row_space(a), y = row_space(b);
    DoubleMatrix cosines = product_with_transposed(x.basis, y.basis);
    for (double& value : cosines.values) value = static_cast<float>(value);
    return smallest_angle(x, y, cosines);
  };
  for (const double theta : {1e-9, 1e-6, 1e-3, 0.05, 0.1, 0.2, 0.7, 1.5}) {
    // A plane and a line, a plane and a plane turned in one direction less than in the other.
    EXPECT_NEAR(angle(matrix(2, 3, {1, 1, 0, 0, 1, 0}),
                      matrix(1, 3, {std::cos(theta), 0, std::sin(theta)})),
                theta, 1e-6 * theta + 3e-7 * (theta > 0.1));
    EXPECT_NEAR(angle(matrix(2, 4, {1, 0, 0, 0, 0, 1, 0, 0}),
                      matrix(2, 4, {std::cos(theta), 0, std::sin(theta), 0, 0, 1, 0, 100})),
                theta, 1e-6 * theta + 3e-7 * (theta > 0.1));
  }
  EXPECT_NEAR(angle(drawn(5, 20, 1), drawn(5, 20, 1)), 0, 1e-6);
  EXPECT_NEAR(angle(matrix(1, 3, {1, 0, 0}), matrix(1, 3, {0, 1, 1})), std::numbers::pi / 2, 1e-12);
  EXPECT_TRUE(std::isnan(angle(matrix(1, 2, {0, 0}), matrix(1, 2, {0, 1}))));
}

TEST(LinearAlgebra, SingularValuesAreDescending) {
  const auto expect = [](const DoubleMatrix& m, std::vector<double> expected, double tolerance) {
    const std::vector<double> got = singular_values(m);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << i;
  };
  expect(matrix(2, 2, {3, 0, 4, 5}), {std::sqrt(45.), std::sqrt(5.)}, 1e-14);
  expect(matrix(2, 3, {0, 2, 0, -7, 0, 0}), {7, 2}, 1e-14);
  expect(matrix(3, 3, {0, 1e-12, 0, 0, 0, 5, 1e-20, 0, 0}), {5, 1e-12, 1e-20}, 1e-26);
  expect(DoubleMatrix(2, 2), {0, 0}, 0);
  expect(DoubleMatrix(2, 0), {}, 0);
  // Those of A' B from the factors of both.
  const DoubleMatrix a = drawn(20, 50, 1), b = drawn(20, 60, 2);
  std::vector<double> whole = singular_values(transposed_product(a, b));
  whole.resize(20);
  expect(transposed_product(row_space(a).factor, row_space(b).factor), whole, 1e-9 * whole[0]);
}

TEST(LinearAlgebra, EffectiveRanks) {
  EXPECT_EQ(effective_rank({}), 0);
  EXPECT_EQ(effective_rank(std::vector<double>{0, 0}), 0);
  EXPECT_NEAR(effective_rank(std::vector<double>{4, 0, 0}), 1, 1e-15);
  EXPECT_NEAR(effective_rank(std::vector<double>{4, 4, 4, 4, 4}), 5, 1e-14);
  EXPECT_NEAR(effective_rank(std::vector<double>{0.5, 0.25, 0.25}), std::pow(2., 1.5), 1e-14);
}

/// numpy.linalg.eigvals gives the same for these.
TEST(LinearAlgebra, EigenvaluesOfKnownMatrices) {
  expect_eigenvalues(matrix(2, 2, {0, -1, 1, 0}), {{0, 1}, {0, -1}}, 1e-15);
  const double c = std::cos(0.3), s = std::sin(0.3);
  expect_eigenvalues(matrix(3, 3, {c, -s, 0, s, c, 0, 5, 7, -2}), {{c, s}, {c, -s}, {-2, 0}},
                     1e-14);
  // The companion of (x - 1)(x - 2)(x - 3)(x² + 1).
  expect_eigenvalues(matrix(5, 5, {6, -12, 12, -11, 6, 1, 0, 0, 0, 0, 0, 1, 0,
                                   0, 0,   0,  0,   1, 0, 0, 0, 0, 0, 1, 0}),
                     {{1, 0}, {2, 0}, {3, 0}, {0, 1}, {0, -1}}, 1e-12);
  // Defective: one eigenvector for three equal values, which double holds to the cube root of ε.
  expect_eigenvalues(matrix(3, 3, {2, 1, 0, 0, 2, 1, 0, 0, 2}), {{2, 0}, {2, 0}, {2, 0}}, 1e-5);
  expect_eigenvalues(matrix(3, 3, {3, 1, -2, -1, 1, 1, 0, 0, 2}), {{2, 0}, {2, 0}, {2, 0}}, 3e-5);
  expect_eigenvalues(DoubleMatrix(3, 3), {0, 0, 0}, 0);
  EXPECT_TRUE(eigenvalues(DoubleMatrix()).empty());
}

/// Their sum is the trace, and the sum of their squares that of the square.
TEST(LinearAlgebra, EigenvaluesKeepTraces) {
  for (const int64_t n : {1, 2, 5, 16, 64}) {
    const DoubleMatrix a = drawn(n, n, static_cast<uint64_t>(n)), square = product(a, a);
    Complex sum = 0, squares = 0;
    double trace = 0, trace_of_square = 0;
    for (const Complex value : eigenvalues(a)) {
      sum += value;
      squares += value * value;
    }
    for (int64_t i = 0; i < n; ++i) {
      trace += a(i, i);
      trace_of_square += square(i, i);
    }
    const double tolerance = 1e-13 * static_cast<double>(n * n);
    EXPECT_NEAR(std::abs(sum - trace), 0, tolerance);
    EXPECT_NEAR(std::abs(squares - trace_of_square), 0, tolerance);
  }
}

TEST(LinearAlgebra, WhatIsNotFiniteComesOutAsNaN) {
  DoubleMatrix bad = drawn(3, 3, 1);
  bad(1, 2) = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(singular_values(bad)[0]));
  EXPECT_TRUE(std::isnan(eigenvalues(bad)[0].real()));
  EXPECT_TRUE(std::isnan(row_space(bad).basis(0, 0)));
  EXPECT_TRUE(std::isnan(effective_rank(singular_values(bad))));
}

}  // namespace
}  // namespace headwise
