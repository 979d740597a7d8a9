// Ridge regression from rows of numbers to classes, from sums over the rows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headwise {

/// The sums that a fit needs, in double: rows are seen once and not kept. D numbers per row, C
/// classes; a row may belong to one class of each of several kinds.
class RidgeSums {
 public:
  RidgeSums() = default;
  RidgeSums(int64_t numbers, int64_t classes);

  /// Rows [count, D] and their classes [count, kinds].
  void add(std::span<const double> rows, std::span<const int32_t> classes);

  int64_t numbers() const { return numbers_; }

 private:
  friend class RidgeClassifier;
  int64_t numbers_ = 0, classes_ = 0, rows_ = 0;
  std::vector<double> sum_;       // [D]
  std::vector<double> products_;  // [D, D], the lower half
  std::vector<double> by_class_;  // [C, D]
  std::vector<int64_t> counts_;   // [C]
};

/// The linear functions w·x + b of all classes that have the least Σ (w·x + b - y)² + λ ‖w‖², y
/// being 1 for rows of the class and 0 for others; λ is `strength` times the mean variance of the
/// numbers times the rows. Rows that hardly differ (by less than a millionth of their size) tell
/// nothing: then w = 0.
class RidgeClassifier {
 public:
  RidgeClassifier() = default;
  RidgeClassifier(const RidgeSums& sums, double strength);

  /// values [C]
  void operator()(std::span<const double> row, std::span<double> values) const;

 private:
  int64_t classes_ = 0;
  std::vector<double> weights_;  // [D, C]
  std::vector<double> bias_;     // [C]
};

}  // namespace headwise
