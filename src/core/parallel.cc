// Parallel loops on the thread pool, or on the calling thread.
#include "headwise/core/parallel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "core/thread_pool.h"
#include "headwise/core/error.h"

namespace headwise {
namespace {

std::atomic<int> thread_count{0};  // 0: not set, all cores

}  // namespace

void set_threads(int count) {
  if (count < 1 || count > 1024) {
    throw Error({.what = "threads: the number of threads is out of range",
                 .got = fmt::format("{}", count),
                 .expected = "1 to 1024"});
  }
  thread_count = count;
}

int threads() {
  const int count = thread_count;
  return count > 0 ? count : available_cores();
}

void parallel_for(int64_t items, const std::function<void(int64_t)>& work) {
  if (items > kMostItems) {
    parallel_for(kMostItems, work);
    return parallel_for(items - kMostItems, [&](int64_t item) { work(kMostItems + item); });
  }
  const int count = static_cast<int>(std::min<int64_t>(threads(), items));
  if (count > 1 && run_on_threads(items, count, work)) return;
  for (int64_t item = 0; item < items; ++item) work(item);
}

void parallel_panels(int64_t rows, int64_t panel,
                     const std::function<void(int64_t, int64_t)>& work) {
  parallel_for((rows + panel - 1) / panel,
               [&](int64_t item) { work(item * panel, std::min(rows, (item + 1) * panel)); });
}

}  // namespace headwise
