// How the learning rate rises and falls during a training.
#pragma once

#include <cstdint>

#include "headwise/train/settings.h"

namespace headwise {

/// The part of the full rate at a step, counted from 0, of a training of `steps` steps: the same as
/// transformers' get_constant_schedule_with_warmup, get_linear_…, get_cosine_schedule_with_warmup
/// and get_inverse_sqrt_schedule.
double schedule_factor(const ScheduleSettings& schedule, int64_t step, int64_t steps);

}  // namespace headwise
