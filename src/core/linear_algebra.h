// Small dense matrices in double: products, the spaces that rows span, singular values,
// eigenvalues, linear equations.
//
// For what is said about weights once, not for what is done to every row of a text. Each function
// uses the calling thread alone. Numbers that are not finite come out as NaN.
#pragma once

#include <complex>
#include <cstdint>
#include <span>
#include <vector>

#include "headwise/core/view.h"

namespace headwise {

/// [rows, columns], row by row.
struct DoubleMatrix {
  int64_t rows = 0, columns = 0;
  std::vector<double> values{};

  DoubleMatrix() = default;
  DoubleMatrix(int64_t row_count, int64_t column_count, double value = 0)
      : rows(row_count),
        columns(column_count),
        values(static_cast<size_t>(row_count * column_count), value) {}
  explicit DoubleMatrix(View<const float, 2> from);

  double& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
  double operator()(int64_t i, int64_t j) const {
    return values[static_cast<size_t>(i * columns + j)];
  }
};

DoubleMatrix product(const DoubleMatrix& a, const DoubleMatrix& b);                  // a b
DoubleMatrix transposed_product(const DoubleMatrix& a, const DoubleMatrix& b);       // a' b
DoubleMatrix product_with_transposed(const DoubleMatrix& a, const DoubleMatrix& b);  // a b'
double inner_product(const DoubleMatrix& a, const DoubleMatrix& b);  // Σ a(i, j) b(i, j)

/// A matrix W [n, C] as factor [n, r] times basis [r, C]. The rows of the basis are orthonormal and
/// span those of W. r is the rank: singular values above max(n, C) ε of the largest, the numbers of
/// W taken as exact.
struct RowSpace {
  DoubleMatrix factor{}, basis{};
  int64_t rank() const { return basis.rows; }
};
RowSpace row_space(const DoubleMatrix& rows);

/// The smallest angle, in radians, between two spaces; `cosines` are basis of a times transposed
/// basis of b, as float has them. NaN if a space is empty.
double smallest_angle(const RowSpace& a, const RowSpace& b, const DoubleMatrix& cosines);

std::vector<double> singular_values(const DoubleMatrix& matrix);  // descending
std::vector<std::complex<double>> eigenvalues(const DoubleMatrix& square);

/// x of a x = b; a [n, n] is symmetric and positive definite.
DoubleMatrix solve_positive(const DoubleMatrix& a, const DoubleMatrix& b);

/// exp(entropy) of singular values divided by their sum; 0 if all are 0.
double effective_rank(std::span<const double> singular_values);

/// The effective rank of A' B, for A and B of these row spaces: with rows F times basis each, the
/// singular values are those of F_A' F_B.
double rank_of_product(const RowSpace& a, const RowSpace& b);

}  // namespace headwise
