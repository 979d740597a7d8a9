// The numbers of a step of AdamW that are the same for all values.
#pragma once

namespace headwise {

struct AdamWStep {
  float gradient_scale;
  float new_mean;                // 1 - beta1: the weight of this gradient in m
  float old_square, new_square;  // beta2 and 1 - beta2
  float spread;                  // 1 / sqrt(1 - beta2^step), v being young
  float epsilon;
  float kept;  // 1 - rate * decay
  float rate;  // rate / (1 - beta1^step), m being young
};

}  // namespace headwise
