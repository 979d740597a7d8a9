// Rows that count, taken from all, and put back among them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "headwise/core/parallel.h"
#include "headwise/core/view.h"

namespace headwise {

/// to[i] = from[rows[i]]
inline void gather_rows(View<const float, 2> from, std::span<const int64_t> rows,
                        View<float, 2> to) {
  if (from.extent(1) == 0) return;
  constexpr int64_t kTogether = 64;
  parallel_panels(std::ssize(rows), kTogether, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::copy_n(&from(rows[i], 0), from.extent(1), &to(i, 0));
    }
  });
}

/// to[rows[i]] = from[i], and 0 elsewhere; the rows are increasing.
inline void scatter_rows(View<const float, 2> from, std::span<const int64_t> rows,
                         View<float, 2> to) {
  if (from.extent(1) == 0) return;
  size_t i = 0;
  for (int64_t t = 0; t < to.extent(0); ++t) {
    if (i < rows.size() && rows[i] == t) {
      std::copy_n(&from(i++, 0), from.extent(1), &to(t, 0));
    } else {
      std::fill_n(&to(t, 0), to.extent(1), 0.f);
    }
  }
}

}  // namespace headwise
