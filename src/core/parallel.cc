// parallel_for on OpenMP's dynamic schedule.
#include "headwise/core/parallel.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>

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
  return count > 0 ? count : std::max(1, omp_get_num_procs());
}

void parallel_for(int64_t items, const std::function<void(int64_t)>& work) {
  const int count = static_cast<int>(std::min<int64_t>(threads(), items));
  if (count <= 1 || omp_in_parallel()) {
    for (int64_t item = 0; item < items; ++item) work(item);
    return;
  }
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
#pragma omp parallel for schedule(dynamic, 1) num_threads(count)
  for (int64_t item = 0; item < items; ++item) {
    if (failed) continue;
    try {
      work(item);
    } catch (...) {
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
}

void parallel_panels(int64_t rows, int64_t panel,
                     const std::function<void(int64_t, int64_t)>& work) {
  parallel_for((rows + panel - 1) / panel,
               [&](int64_t item) { work(item * panel, std::min(rows, (item + 1) * panel)); });
}

}  // namespace headwise
