// The probe: two threads hand a number to each other.
#include "core_distance.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>

namespace headwise::bench {

double core_distance() {
  constexpr int64_t kStop = -1, kHanded = 2000, kPatience = 100'000;
  alignas(64) std::atomic<int64_t> number{0};  // even: ours to raise
  alignas(64) std::atomic<bool> there{false};
  std::jthread other([&] {
    there = true;
    for (int64_t seen = 0; seen != kStop; seen = number) {
      if (seen % 2 == 1) number.compare_exchange_strong(seen, seen + 1);
    }
  });
  while (!there) std::this_thread::yield();
  const auto start = std::chrono::steady_clock::now();
  double distance = 0;
  for (int64_t handed = 0; handed < kHanded && distance == 0; handed += 2) {
    number = handed + 1;
    int64_t waited = 0;
    while (number != handed + 2 && waited < kPatience) ++waited;
    if (waited == kPatience) distance = std::numeric_limits<double>::infinity();
  }
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
  number = kStop;
  return distance > 0 ? distance : time.count() / static_cast<double>(kHanded);
}

}  // namespace headwise::bench
