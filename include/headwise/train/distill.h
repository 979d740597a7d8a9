// A model learns to give the hidden states of another: recovery without labels.
#pragma once

#include <cstdint>
#include <functional>

#include "headwise/model/model.h"
#include "headwise/train/examples.h"
#include "headwise/train/settings.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

struct DistillOptions {
  int64_t epochs = 1;
  int64_t tokens_per_batch = 2000;
  OptimizerSettings optimizer{.rate = 1e-4};
  ScheduleSettings schedule{.kind = ScheduleKind::linear, .warmup = 20};
  float dropout = 0;
  uint64_t seed = 0;

  /// Steps done and all of them, and the error of the last batch. May throw to stop.
  std::function<void(int64_t done, int64_t steps, double error)> progress{};
};

/// Σ |h - h'|² / Σ |h|² over the rows of a set, h being the teacher's last hidden states and h' the
/// student's.
double hidden_error(const Model& teacher, const Examples& examples, TrainableModel& student);

/// Minimises that error, batch by batch. Labels are not looked at. Both models have the same width
/// and read the same token ids.
void distill(const Model& teacher, const Examples& examples, const DistillOptions& options,
             TrainableModel& student);

}  // namespace headwise
