// The least assignment, row by row.
#include "core/assignment.h"

#include <algorithm>
#include <limits>

namespace headwise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Rows and columns have prices such that costs(i, j) >= row price + column price, with equality
/// for those that are assigned to each other: then the assignment is the least one of its rows.
class Assignment {
 public:
  explicit Assignment(View<const double, 2> costs)
      : costs_(costs),
        columns_(costs.extent(1)),
        row_price_(costs.extent(0)),
        column_price_(columns_),
        row_of_(columns_, -1) {}

  /// Finds a place for one more row, by the cheapest chain of rows that change their column.
  void add(int64_t row) {
    std::vector<double> distance(columns_, kInfinity);  // of the cheapest chain to each column
    std::vector<int64_t> before(columns_, -1);          // the column that comes before it there
    std::vector<uint8_t> done(columns_);
    int64_t at = row, from = -1;
    double reached = 0;
    for (;;) {
      int64_t nearest = -1;
      for (int64_t j = 0; j < columns_; ++j) {
        if (done[j] != 0) continue;
        const double there = reached + costs_(at, j) - row_price_[at] - column_price_[j];
        if (there < distance[j]) {
          distance[j] = there;
          before[j] = from;
        }
        if (nearest < 0 || distance[j] < distance[nearest]) nearest = j;
      }
      done[nearest] = 1;
      reached = distance[nearest];
      from = nearest;
      if (row_of_[nearest] < 0) break;
      at = row_of_[nearest];
    }
    row_price_[row] += reached;
    for (int64_t j = 0; j < columns_; ++j) {
      if (done[j] == 0 || j == from) continue;
      row_price_[row_of_[j]] += reached - distance[j];
      column_price_[j] -= reached - distance[j];
    }
    for (int64_t j = from; j >= 0; j = before[j]) {
      row_of_[j] = before[j] < 0 ? row : row_of_[before[j]];
    }
  }

  const std::vector<int64_t>& row_of() const { return row_of_; }

 private:
  View<const double, 2> costs_;
  int64_t columns_;
  std::vector<double> row_price_, column_price_;
  std::vector<int64_t> row_of_;  // of each column; -1: none
};

}  // namespace

std::vector<int64_t> least_assignment(View<const double, 2> costs) {
  const bool wide = costs.extent(0) <= costs.extent(1);
  Assignment assignment(wide ? costs : transposed(costs));
  for (int64_t i = 0; i < std::min(costs.extent(0), costs.extent(1)); ++i) assignment.add(i);
  if (!wide) return assignment.row_of();
  std::vector<int64_t> column_of(costs.extent(0), -1);
  for (int64_t j = 0; j < costs.extent(1); ++j) {
    if (assignment.row_of()[j] >= 0) column_of[assignment.row_of()[j]] = j;
  }
  return column_of;
}

}  // namespace headwise
