// Gates that learn which heads can be removed: hard concrete variables (Louizos et al. 2018), one
// per head, as Voita et al. 2019 prune heads.
//
//   u ~ (0, 1),  s = sigmoid((log u - log(1 - u) + log_alpha) / β),  gate = clamp(s (ζ - γ) + γ)
//
// A gate is exactly 0 or 1 with a probability above 0. Without noise it is
// clamp(sigmoid(log_alpha) (ζ - γ) + γ). The penalty is the expected number of gates that are not
// 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/core/view.h"
#include "headwise/train/trainable_model.h"
#include "model/weights.h"

namespace headwise {

class HardConcrete {
 public:
  static constexpr double kBeta = 2. / 3, kGamma = -0.1, kZeta = 1.1;
  static constexpr float kStart = 2;  // of log_alpha: a gate of 0.96

  explicit HardConcrete(int64_t gates);

  /// Draws gates [1, n], and makes room for their gradients.
  View<const float, 2> draw(uint64_t seed);
  View<float, 2> dgates() { return {dgates_.data(), {1, size()}}; }

  /// Adds the gradients of the gates drawn last, and of `penalty_scale` times the penalty.
  void backward(double penalty_scale);

  double penalty() const;
  std::vector<float> gates() const;  // without noise

  Parameter parameter() const;
  int64_t size() const { return log_alpha_.size(); }

 private:
  Weights log_alpha_;
  std::vector<float> drawn_, dgates_;
  std::vector<double> slopes_;  // of the gates drawn last, for log_alpha
};

}  // namespace headwise
