// The optimiser: AdamW over all trained weights of a model, with clipping.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/train/settings.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

/// Takes the weights of the named places out of training: "embeddings", "head" (the output layer),
/// "L0", "enc.L0", "dec.L0", "cross.L0". Throws Error for what the model does not have, and if
/// nothing is left.
void freeze(TrainableModel& model, std::span<const std::string> places);

class Optimizer {
 public:
  struct Moments {
    Buffer m, v;  // empty for weights that are not trained
  };

  /// The model must outlive it, and what is frozen must be so by now. Gradients become 0.
  Optimizer(TrainableModel& model, const OptimizerSettings& settings);

  /// The norm of the gradients of all trained weights together.
  double gradient_norm() const;

  /// Step number `step`, counted from 1, with gradients of this norm; those of trained weights are
  /// 0 afterwards. The schedule's factor multiplies all rates: that of the settings, and those that
  /// parameters have of their own.
  void step(int64_t step, double factor, double gradient_norm);

  /// One per parameter of the model.
  std::span<const Moments> moments() const { return moments_; }

 private:
  TrainableModel& model_;
  OptimizerSettings settings_;
  std::vector<Moments> moments_;
};

}  // namespace headwise
