// How far to go along an order so that a model becomes fast enough: guided by predictions, which
// cost little, and decided by measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace headwise {

struct SpeedSearch {
  double wanted = 1;
  int64_t first = 0;  // steps that are taken at least

  std::function<bool(int64_t steps)> can_go;  // so many can be taken
  std::function<double(int64_t steps)> predicted, measured;
};

struct FoundSpeed {
  int64_t steps = 0;
  double speedup = 0;  // measured
};

/// The fewest steps that were measured to be fast enough, where predictions, corrected by how far
/// off they were at the last measurement, said that fewer are not; none if no number of steps is,
/// and `fastest` is what was measured last.
std::optional<FoundSpeed> search_speed(const SpeedSearch& search, double& fastest);

}  // namespace headwise
