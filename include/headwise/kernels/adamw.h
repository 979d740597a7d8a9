// The step of the optimiser AdamW (Loshchilov and Hutter 2019), as torch.optim.AdamW makes it. The
// same bits come out for any number of threads.
#pragma once

#include <cstdint>
#include <span>

namespace headwise {

struct AdamW {
  double rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double decay = 0.01;       // decoupled: values lose rate * decay of themselves
  int64_t step = 1;          // counted from 1
  float gradient_scale = 1;  // what gradients are multiplied by: clipping, accumulation
};

/// One step: values, and the running means m of the gradient and v of its square, which start as 0.
/// The gradient is left at 0, for the next one to be added up: it is in the caches now. Throws
/// Error for spans of different sizes and for a step below 1.
void adamw(std::span<float> values, std::span<float> gradient, std::span<float> m,
           std::span<float> v, const AdamW& settings);

}  // namespace headwise
