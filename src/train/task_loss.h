// The loss of a task, by the output layer, and its gradients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/train/trainable_model.h"
#include "model/task_head.h"

namespace headwise {

class TaskLoss {
 public:
  TaskLoss(const ModelConfig& config, const TaskHead& head) : config_(config), head_(head) {}

  /// Which rows of texts at `offsets` are scored. Throws Error for labels that do not fit.
  WantedRows choose(std::span<const int64_t> offsets, const TrainingBatch& batch);

  /// The loss of the hidden states [R, C] of these rows. dhidden [R, C], if there is one, is
  /// overwritten with their gradient; otherwise there are no gradients.
  Loss run(View<const float, 2> hidden, const PassOptions& options, View<float, 2> dhidden);

 private:
  Loss score_labels(View<const float, 2> x, const PassOptions& options, View<float, 2> dx);
  Loss score_numbers(View<const float, 2> x, const PassOptions& options, View<float, 2> dx);

  const ModelConfig& config_;
  const TaskHead& head_;

  // The last pass.
  std::vector<int64_t> chosen_;   // rows that are scored; none: all, or those with a target
  std::vector<int32_t> targets_;  // of these
  std::vector<float> expected_;   // likewise, in regression
  TaskHead::Tape tape_;
  Rows dx_, scores_;
};

}  // namespace headwise
