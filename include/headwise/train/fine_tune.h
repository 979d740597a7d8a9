// Fine-tunes a model in memory, on labels or on the hidden states of a teacher.
//
// For recovery after heads were cut out. For long trainings with a log and resume see trainer.h.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/train/examples.h"
#include "headwise/train/settings.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

struct FineTuneOptions {
  int64_t epochs = 1;
  int64_t tokens_per_batch = 800;
  OptimizerSettings optimizer{.rate = 5e-5};
  double warmup = 0.1;  // this share of the steps; then the rate falls to 0
  float dropout = 0, head_dropout = 0, label_smoothing = 0;
  std::vector<float> gates{};  // of all heads of the model, the same in every step; empty: all 1
  uint64_t seed = 0;

  /// Called before every step, when its gradients are there.
  std::function<void()> before_step{};

  /// Called after every step: steps done and all of them, and the loss of the last batch. May throw
  /// to stop.
  std::function<void(int64_t done, int64_t steps, double loss)> progress{};
};

/// The steps that it takes.
int64_t fine_tune_steps(const Examples& examples, const FineTuneOptions& options);

/// Minimises the loss that the model is trained for, over examples with what is wanted.
void fine_tune(const Examples& examples, const FineTuneOptions& options, TrainableModel& model);

/// Minimises hidden_error, batch by batch. Labels are ignored.
void distill(const Model& teacher, const Examples& examples, const FineTuneOptions& options,
             TrainableModel& student);

/// Σ |h - h'|² / Σ |h|² over the rows of all examples, h being the teacher's last hidden states and
/// h' the student's. Both models have the same width and read the same token ids.
double hidden_error(const Model& teacher, const Examples& examples, TrainableModel& student);

}  // namespace headwise
