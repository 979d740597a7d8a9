// Matrices by Eigen, which only this file knows.
#include "core/linear_algebra.h"

// Another namespace than a user's own Eigen, which may be compiled for another processor: the
// linker takes functions of the same name for the same. And no threads beside ours.
#define Eigen headwise_eigen
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/nan.h"

namespace headwise {
namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Columns = Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

Eigen::Map<const Rows> map(const DoubleMatrix& matrix) {
  return {matrix.values.data(), matrix.rows, matrix.columns};
}

template <class Expression>
DoubleMatrix matrix_of(const Expression& expression) {
  DoubleMatrix result(expression.rows(), expression.cols());
  Eigen::Map<Rows>(result.values.data(), result.rows, result.columns).noalias() = expression;
  return result;
}

/// A matrix as turn' times rows: `turn` is orthogonal, and so are the rows to one another, the
/// longest first. Their lengths are the singular values.
struct Orthogonal {
  Rows turn{}, rows{};
};

/// By turning pairs of rows until all are orthogonal (Hestenes, Jacobi): slow, and exact to the
/// last bits of the smallest singular values.
Orthogonal orthogonal_rows(const Rows& matrix) {
  const Eigen::Index n = matrix.rows();
  Rows rows = matrix, turn = Rows::Identity(n, n);
  const auto rotate = [](Rows& m, Eigen::Index i, Eigen::Index j, double cosine, double sine) {
    for (Eigen::Index c = 0; c < m.cols(); ++c) {
      const double x = m(i, c), y = m(j, c);
      m(i, c) = cosine * x - sine * y;
      m(j, c) = sine * x + cosine * y;
    }
  };
  constexpr int kSweeps = 60;  // about ten are needed
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < kSweeps; ++sweep) {
    rotated = false;
    for (Eigen::Index i = 0; i < n; ++i) {
      for (Eigen::Index j = i + 1; j < n; ++j) {
        const double a = rows.row(i).squaredNorm(), b = rows.row(j).squaredNorm();
        const double dot = rows.row(i).dot(rows.row(j));
        if (std::abs(dot) <= kEpsilon * std::sqrt(a * b)) continue;
        const double zeta = (b - a) / (2 * dot);
        const double tangent = std::copysign(1 / (std::abs(zeta) + std::hypot(1, zeta)), zeta);
        const double cosine = 1 / std::hypot(1, tangent);
        rotate(rows, i, j, cosine, cosine * tangent);
        rotate(turn, i, j, cosine, cosine * tangent);
        rotated = true;
      }
    }
  }
  const VectorXd lengths = rows.rowwise().norm();
  std::vector<Eigen::Index> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto i, auto j) { return lengths(i) > lengths(j); });
  return {.turn = turn(order, Eigen::all), .rows = rows(order, Eigen::all)};
}

RowSpace by_singular_values(const Rows& w) {
  const bool tall = w.rows() > w.cols();
  const Orthogonal found = orthogonal_rows(tall ? Rows(w.transpose()) : w);
  const VectorXd sigma = found.rows.rowwise().norm();
  const double least =
      sigma.size() == 0 ? 0
                        : static_cast<double>(std::max(w.rows(), w.cols())) * kEpsilon * sigma(0);
  Eigen::Index rank = 0;
  while (rank < sigma.size() && sigma(rank) > least) ++rank;
  const Rows turn = found.turn.topRows(rank), rows = found.rows.topRows(rank);
  if (tall) return {.factor = matrix_of(rows.transpose()), .basis = matrix_of(turn)};
  return {.factor = matrix_of(turn.transpose() * sigma.head(rank).asDiagonal()),
          .basis = matrix_of(sigma.head(rank).cwiseInverse().asDiagonal() * rows)};
}

}  // namespace

DoubleMatrix::DoubleMatrix(View<const float, 2> from)
    : DoubleMatrix(from.extent(0), from.extent(1)) {
  // In the order of memory, which is that of columns where a view is transposed.
  if (from.stride(0) < from.stride(1)) {
    for (int64_t j = 0; j < columns; ++j) {
      for (int64_t i = 0; i < rows; ++i) (*this)(i, j) = from(i, j);
    }
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) (*this)(i, j) = from(i, j);
  }
}

DoubleMatrix product(const DoubleMatrix& a, const DoubleMatrix& b) {
  return matrix_of(map(a) * map(b));
}

DoubleMatrix transposed_product(const DoubleMatrix& a, const DoubleMatrix& b) {
  return matrix_of(map(a).transpose() * map(b));
}

DoubleMatrix product_with_transposed(const DoubleMatrix& a, const DoubleMatrix& b) {
  return matrix_of(map(a) * map(b).transpose());
}

double inner_product(const DoubleMatrix& a, const DoubleMatrix& b) {
  return map(a).cwiseProduct(map(b)).sum();
}

RowSpace row_space(const DoubleMatrix& rows) {
  const auto w = map(rows);
  if (!w.allFinite()) {
    const int64_t rank = std::min(rows.rows, rows.columns);
    return {.factor = DoubleMatrix(rows.rows, rank, kNaN),
            .basis = DoubleMatrix(rank, rows.columns, kNaN)};
  }
  // W W' = V Λ V', so W = (V √Λ) (V' W / √Λ). Rounding is ε of the largest eigenvalue, so the basis
  // is orthonormal to ε over the smallest share of it. Below 1e-10 the slower way is taken.
  constexpr double kSafe = 1e-10;
  if (rows.rows == 0 || rows.rows > rows.columns) return by_singular_values(w);
  Columns gram = Columns::Zero(rows.rows, rows.rows);
  gram.selfadjointView<Eigen::Lower>().rankUpdate(w);
  const Eigen::SelfAdjointEigenSolver<Columns> solver(gram);
  const VectorXd& lambda = solver.eigenvalues();  // ascending
  if (solver.info() != Eigen::Success || !(lambda(0) > kSafe * lambda(rows.rows - 1))) {
    return by_singular_values(w);
  }
  const VectorXd root = lambda.cwiseSqrt();
  const Rows scaled = root.cwiseInverse().asDiagonal() * solver.eigenvectors().transpose();
  return {.factor = matrix_of(solver.eigenvectors() * root.asDiagonal()),
          .basis = matrix_of(scaled * w)};
}

double smallest_angle(const RowSpace& a, const RowSpace& b, const DoubleMatrix& cosines) {
  // The largest cosine is the root of the largest eigenvalue of M' M.
  const auto m = map(cosines);
  if (m.size() == 0 || !m.allFinite()) return kNaN;
  const Columns squares = m.transpose() * m;
  const double square = Eigen::SelfAdjointEigenSolver<Columns>(squares, Eigen::EigenvaluesOnly)
                            .eigenvalues()(m.cols() - 1);
  if (square < 0.99) return std::acos(std::sqrt(std::max(0., square)));
  // A cosine near 1 says little about the angle. Its sine is what the nearest vector of b has
  // outside of a.
  const Eigen::SelfAdjointEigenSolver<Columns> solver(squares);
  const Eigen::RowVectorXd nearest =
      solver.eigenvectors().col(m.cols() - 1).transpose() * map(b.basis);
  const Eigen::RowVectorXd inside = nearest * map(a.basis).transpose();
  return std::atan2((nearest - inside * map(a.basis)).norm(), inside.norm());
}

std::vector<double> singular_values(const DoubleMatrix& matrix) {
  const auto m = map(matrix);
  const auto count = static_cast<size_t>(std::min(matrix.rows, matrix.columns));
  if (count == 0) return {};
  if (!m.allFinite()) return std::vector<double>(count, kNaN);
  // The roots of the eigenvalues of M' M have errors of ε over the smallest share of the largest:
  // less than 1e-9 of the largest, unless that share is below 1e-7. Ten times as fast.
  constexpr double kSafe = 1e-14;
  if (matrix.rows == matrix.columns) {
    const Columns squares = m.transpose() * m;
    const Eigen::SelfAdjointEigenSolver<Columns> solver(squares, Eigen::EigenvaluesOnly);
    const VectorXd& lambda = solver.eigenvalues();
    if (solver.info() == Eigen::Success && lambda(0) > kSafe * lambda(lambda.size() - 1)) {
      const VectorXd values = lambda.reverse().cwiseSqrt();
      return {values.data(), values.data() + count};
    }
  }
  const VectorXd lengths =
      orthogonal_rows(m.rows() > m.cols() ? Rows(m.transpose()) : Rows(m)).rows.rowwise().norm();
  return {lengths.data(), lengths.data() + count};
}

std::vector<std::complex<double>> eigenvalues(const DoubleMatrix& square) {
  const auto m = map(square);
  const auto count = static_cast<size_t>(square.rows);
  if (count == 0) return {};
  if (!m.allFinite()) return std::vector<std::complex<double>>(count, kNaN);
  const Eigen::EigenSolver<Columns> solver(m, false);
  if (solver.info() != Eigen::Success) return std::vector<std::complex<double>>(count, kNaN);
  return {solver.eigenvalues().data(), solver.eigenvalues().data() + count};
}

DoubleMatrix solve_positive(const DoubleMatrix& a, const DoubleMatrix& b) {
  const Eigen::LLT<Columns> factor{Columns(map(a))};
  if (factor.info() != Eigen::Success) return DoubleMatrix(a.rows, b.columns, kNaN);
  return matrix_of(Columns(factor.solve(Columns(map(b)))));
}

double effective_rank(std::span<const double> singular_values) {
  double sum = 0, entropy = 0;
  for (const double value : singular_values) sum += value;
  if (sum == 0) return 0;
  for (const double value : singular_values) {
    if (value != 0) entropy -= value / sum * std::log(value / sum);
  }
  return std::exp(entropy);
}

double rank_of_product(const RowSpace& a, const RowSpace& b) {
  return effective_rank(singular_values(transposed_product(a.factor, b.factor)));
}

}  // namespace headwise
