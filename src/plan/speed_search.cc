// Measures where predictions say, between what was too slow and what was fast enough.
#include "plan/speed_search.h"

namespace headwise {

std::optional<FoundSpeed> search_speed(const SpeedSearch& search, double& fastest) {
  std::optional<FoundSpeed> found;
  int64_t slow = search.first - 1;  // too slow, as are all before it
  double correction = 1;            // measured over predicted
  for (;;) {
    int64_t steps = slow + 1;
    const auto ends = [&] { return found && steps == found->steps; };
    while (!ends() && correction * search.predicted(steps) < search.wanted &&
           search.can_go(steps + 1)) {
      ++steps;
    }
    if (ends()) return found;
    const double speedup = search.measured(steps);
    correction = speedup / search.predicted(steps);
    if (speedup >= search.wanted) {
      found = {.steps = steps, .speedup = speedup};
    } else {
      slow = steps;
      fastest = speedup;
      if (!found && !search.can_go(steps + 1)) return std::nullopt;
    }
  }
}

}  // namespace headwise
