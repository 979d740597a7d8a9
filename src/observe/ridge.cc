// Normal equations, solved by a Cholesky factorisation.
#include "observe/ridge.h"

#include <cmath>

namespace headwise {
namespace {

/// Below this share of their size, the variance of float32 numbers is rounding.
constexpr double kLeastVariance = 1e-12;

/// a = L Lᵀ in place, the lower half [n, n]; a is positive definite.
void factorise(std::vector<double>& a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    double* const row = a.data() + i * n;
    for (int64_t j = 0; j <= i; ++j) {
      const double* const other = a.data() + j * n;
      double sum = row[j];
      for (int64_t k = 0; k < j; ++k) sum -= row[k] * other[k];
      row[j] = i == j ? std::sqrt(sum) : sum / other[j];
    }
  }
}

/// x [n, columns] becomes the solution of L Lᵀ y = x.
void solve(const std::vector<double>& factor, int64_t n, std::vector<double>& x, int64_t columns) {
  const auto subtract = [&](double times, int64_t from, int64_t to) {
    for (int64_t c = 0; c < columns; ++c) x[to * columns + c] -= times * x[from * columns + c];
  };
  const auto divide = [&](int64_t row) {
    for (int64_t c = 0; c < columns; ++c) x[row * columns + c] /= factor[row * n + row];
  };
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t k = 0; k < i; ++k) subtract(factor[i * n + k], k, i);
    divide(i);
  }
  for (int64_t i = n; i-- > 0;) {
    for (int64_t k = i + 1; k < n; ++k) subtract(factor[k * n + i], k, i);
    divide(i);
  }
}

}  // namespace

RidgeSums::RidgeSums(int64_t numbers, int64_t classes)
    : numbers_(numbers),
      classes_(classes),
      sum_(numbers),
      products_(numbers * numbers),
      by_class_(classes * numbers),
      counts_(classes) {}

void RidgeSums::add(std::span<const double> rows, std::span<const int32_t> classes) {
  const int64_t D = numbers_, count = std::ssize(rows) / D;
  const int64_t kinds = count == 0 ? 0 : std::ssize(classes) / count;
  rows_ += count;
  for (int64_t r = 0; r < count; ++r) {
    const double* const x = rows.data() + r * D;
    for (int64_t i = 0; i < D; ++i) sum_[i] += x[i];
    for (int64_t k = 0; k < kinds; ++k) {
      const int32_t one = classes[r * kinds + k];
      ++counts_[one];
      double* const sums = by_class_.data() + one * D;
      for (int64_t i = 0; i < D; ++i) sums[i] += x[i];
    }
  }
  constexpr int64_t kBlock = 4;  // rows for one pass over the products
  int64_t r = 0;
  for (; r + kBlock <= count; r += kBlock) {
    const double* const x = rows.data() + r * D;
    for (int64_t i = 0; i < D; ++i) {
      double* const products = products_.data() + i * D;
      const double a = x[i], b = x[D + i], c = x[2 * D + i], d = x[3 * D + i];
      for (int64_t j = 0; j <= i; ++j) {
        products[j] += (a * x[j] + b * x[D + j]) + (c * x[2 * D + j] + d * x[3 * D + j]);
      }
    }
  }
  for (; r < count; ++r) {
    const double* const x = rows.data() + r * D;
    for (int64_t i = 0; i < D; ++i) {
      for (int64_t j = 0; j <= i; ++j) products_[i * D + j] += x[i] * x[j];
    }
  }
}

RidgeClassifier::RidgeClassifier(const RidgeSums& sums, double strength)
    : classes_(sums.classes_), weights_(sums.numbers_ * classes_), bias_(classes_) {
  const int64_t D = sums.numbers_, C = classes_;
  if (sums.rows_ == 0) return;
  const double rows = static_cast<double>(sums.rows_);
  for (int64_t c = 0; c < C; ++c) bias_[c] = static_cast<double>(sums.counts_[c]) / rows;
  std::vector<double> mean(sums.sum_), centred(sums.products_);
  for (double& one : mean) one /= rows;
  double size = 0, variance = 0;
  for (int64_t i = 0; i < D; ++i) {
    size += sums.products_[i * D + i];
    for (int64_t j = 0; j <= i; ++j) centred[i * D + j] -= rows * mean[i] * mean[j];
    variance += centred[i * D + i];
  }
  if (!(variance > kLeastVariance * size)) return;
  const double lambda = strength * variance / static_cast<double>(D);
  for (int64_t i = 0; i < D; ++i) centred[i * D + i] += lambda;
  for (int64_t i = 0; i < D; ++i) {
    for (int64_t c = 0; c < C; ++c) {
      weights_[i * C + c] =
          sums.by_class_[c * D + i] - static_cast<double>(sums.counts_[c]) * mean[i];
    }
  }
  factorise(centred, D);
  solve(centred, D, weights_, C);
  for (int64_t i = 0; i < D; ++i) {
    for (int64_t c = 0; c < C; ++c) bias_[c] -= weights_[i * C + c] * mean[i];
  }
}

void RidgeClassifier::operator()(std::span<const double> row, std::span<double> values) const {
  for (int64_t c = 0; c < classes_; ++c) values[c] = bias_[c];
  for (size_t i = 0; i < row.size(); ++i) {
    const double* const weights = weights_.data() + static_cast<int64_t>(i) * classes_;
    for (int64_t c = 0; c < classes_; ++c) values[c] += row[i] * weights[c];
  }
}

}  // namespace headwise
