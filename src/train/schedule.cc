// The factors of the four schedules.
#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace headwise {

double schedule_factor(const ScheduleSettings& schedule, int64_t step, int64_t steps) {
  constexpr double kScaleWithoutWarmup = 10000;  // of inverse_sqrt, as transformers has it
  const auto now = static_cast<double>(step), warmup = static_cast<double>(schedule.warmup);
  if (step < schedule.warmup) return now / warmup;
  const double all = static_cast<double>(std::max<int64_t>(1, steps - schedule.warmup));
  switch (schedule.kind) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::linear:
      return std::max(0., static_cast<double>(steps - step) / all);
    case ScheduleKind::cosine:
      return std::max(0., 0.5 * (1 + std::cos(std::numbers::pi * (now - warmup) / all)));
    case ScheduleKind::inverse_sqrt: {
      const double scale = schedule.warmup > 0 ? warmup : kScaleWithoutWarmup;
      return 1 / std::sqrt((now + scale - warmup) / scale);
    }
  }
  return 1;
}

}  // namespace headwise
