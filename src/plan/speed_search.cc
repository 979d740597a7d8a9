// Measures where predictions say, between what was too slow and what was fast enough.
#include "plan/speed_search.h"

#include <algorithm>

namespace headwise {

constexpr double kLeast = 0.1;  // a measurement may be off

std::optional<FoundSpeed> search_speed(const SpeedSearch& search, double& fastest) {
  std::optional<FoundSpeed> found;
  int64_t slow = search.first - 1;  // too slow, as are all before it
  double correction = 1;            // of what is gained: measured over predicted
  const auto corrected = [&](int64_t steps) {
    return 1 + correction * (search.predicted(steps) - 1);
  };
  for (;;) {
    int64_t steps = slow + 1;
    const auto ends = [&] { return found && steps == found->steps; };
    while (!ends() && corrected(steps) < search.wanted && search.can_go(steps + 1)) {
      ++steps;
    }
    if (ends()) return found;
    const double speedup = search.measured(steps);
    const double gain = search.predicted(steps) - 1;
    if (gain > 0) correction = std::max((speedup - 1) / gain, kLeast);
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
