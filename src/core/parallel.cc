// parallel_for on OpenMP: neighbouring items for each thread, and for one that is done what others
// have left.
#include "headwise/core/parallel.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <vector>

#include "headwise/core/error.h"

namespace headwise {
namespace {

std::atomic<int> thread_count{0};  // 0: not set, all cores

/// What is left of one thread's share of a loop's items: neighbours, so that a thread meets the
/// same part of the data, which its caches may still hold, in loop after loop. Its owner takes from
/// the front, and who has nothing left from the back.
class alignas(64) Share {
 public:
  void hold(int64_t begin, int64_t end) { left_ = pack(begin, end); }

  std::optional<int64_t> take(bool from_front) {
    uint64_t seen = left_.load(std::memory_order_relaxed);
    while (true) {
      const auto begin = static_cast<int64_t>(seen >> 32), end = static_cast<int64_t>(seen & kLow);
      if (begin == end) return std::nullopt;
      const uint64_t rest = from_front ? pack(begin + 1, end) : pack(begin, end - 1);
      if (left_.compare_exchange_weak(seen, rest, std::memory_order_relaxed)) {
        return from_front ? begin : end - 1;
      }
    }
  }

 private:
  static constexpr uint64_t kLow = 0xffffffff;
  static uint64_t pack(int64_t begin, int64_t end) {
    return static_cast<uint64_t>(begin) << 32 | static_cast<uint64_t>(end);
  }
  std::atomic<uint64_t> left_{0};
};

/// More items than a share can count are taken in several loops.
constexpr int64_t kMostItems = int64_t{1} << 31;

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
  if (items > kMostItems) {
    parallel_for(kMostItems, work);
    return parallel_for(items - kMostItems, [&](int64_t item) { work(kMostItems + item); });
  }
  std::exception_ptr failure;
  std::atomic<bool> failed{false};
  std::vector<Share> shares(count);
  for (int t = 0; t < count; ++t) shares[t].hold(items * t / count, items * (t + 1) / count);
  const auto work_through = [&](Share& share, bool from_front) {
    while (!failed) {
      const std::optional<int64_t> item = share.take(from_front);
      if (!item) return;
      try {
        work(*item);
      } catch (...) {
        if (!failed.exchange(true)) failure = std::current_exception();
      }
    }
  };
#pragma omp parallel num_threads(count)
  {
    const int own = omp_get_thread_num();
    work_through(shares[own], true);
    for (int i = 1; i < count; ++i) work_through(shares[(own + i) % count], false);
  }
  if (failure) std::rethrow_exception(failure);
}

void parallel_panels(int64_t rows, int64_t panel,
                     const std::function<void(int64_t, int64_t)>& work) {
  parallel_for((rows + panel - 1) / panel,
               [&](int64_t item) { work(item * panel, std::min(rows, (item + 1) * panel)); });
}

}  // namespace headwise
