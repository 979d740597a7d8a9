// Who goes with whom, at the least cost.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/core/view.h"

namespace headwise {

/// The assignment of rows to columns, each at most once and as many as there are, with the least
/// sum of costs (which are finite): the column of every row, -1 for rows that are left over. By
/// shortest augmenting paths (Jonker and Volgenant 1987), in O(n^2 m) for n rows and m >= n
/// columns.
std::vector<int64_t> least_assignment(View<const double, 2> costs);

}  // namespace headwise
