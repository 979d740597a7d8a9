// Makes the mistake it is told to make, so that a test can see that the sanitizer notices.
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string_view>

#include "headwise/core/parallel.h"

int* volatile last_allocated;

// Two threads meet and write one after the other; nothing orders their memory.
int race() {
  int written = 0;
  std::atomic<int> arrived{0}, turn{0};
  headwise::set_threads(2);
  headwise::parallel_for(2, [&](int64_t item) {
    arrived.fetch_add(1, std::memory_order_relaxed);
    while (arrived.load(std::memory_order_relaxed) < 2) continue;
    while (turn.load(std::memory_order_relaxed) < item) continue;
    written = static_cast<int>(item);
    turn.fetch_add(1, std::memory_order_relaxed);
  });
  return written;
}

void leak() {
  headwise::parallel_for(1000, [](int64_t) { last_allocated = new int; });
}

int use_after_free() {
  volatile int* freed = new int(1);
  delete freed;
  return *freed;
}

int overflow(int one) { return std::numeric_limits<int>::max() + one; }

int main(int argc, char** argv) {
  const std::string_view mistake = argc > 1 ? argv[1] : "";
  if (mistake == "race") return race();
  if (mistake == "leak") leak();
  if (mistake == "use-after-free") return use_after_free() == 0;
  if (mistake == "overflow") std::printf("%d\n", overflow(argc - 1));
}
