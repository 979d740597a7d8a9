// Somebody else's program that uses the installed headwise.
#include <headwise/core/parallel.h>
#include <headwise/core/random.h>

#include <cstdio>
#include <vector>

int main() {
  headwise::set_threads(2);
  std::vector<float> draws(8);
  headwise::parallel_for(8, [&](int64_t i) { draws[i] = headwise::Random(7, i).normal(); });
  for (const float draw : draws) std::printf("%g\n", draw);
  return headwise::threads() == 2 ? 0 : 1;
}
