// Parallel loops over independent items. One thread computes each item, so results do not depend on
// the number of threads.
#pragma once

#include <cstdint>
#include <functional>

namespace headwise {

/// How many threads parallel loops use; at first all cores. Throws Error unless 1 ≤ count ≤ 1024.
void set_threads(int count);
int threads();

/// Calls work(item) once for every item in [0, items), on any thread, in any order. The first
/// exception thrown by an item is rethrown here. A loop inside a loop, and one that another thread
/// starts while a loop runs, run on the thread that calls them. A child process has threads of its
/// own, unless it was forked inside a loop.
void parallel_for(int64_t items, const std::function<void(int64_t item)>& work);

/// Cuts [0, rows) into panels of `panel` rows (the last may be shorter) and calls work(begin, end)
/// for each. The cut depends on `rows` and `panel` only.
void parallel_panels(int64_t rows, int64_t panel,
                     const std::function<void(int64_t begin, int64_t end)>& work);

}  // namespace headwise
