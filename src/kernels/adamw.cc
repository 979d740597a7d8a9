// The step of AdamW: checks, parts for threads, dispatch to the SIMD target.
#include "headwise/kernels/adamw.h"

#include <cmath>

#include "headwise/core/parallel.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/adamw.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/adamw-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(adamw_part);

constexpr int64_t kPart = 32768;

AdamWStep prepare(const AdamW& settings) {
  const auto& [rate, beta1, beta2, epsilon, decay, steps, gradient_scale] = settings;
  const auto step = static_cast<double>(steps);
  return {.gradient_scale = gradient_scale,
          .new_mean = static_cast<float>(1 - beta1),
          .old_square = static_cast<float>(beta2),
          .new_square = static_cast<float>(1 - beta2),
          .spread = static_cast<float>(1 / std::sqrt(1 - std::pow(beta2, step))),
          .epsilon = static_cast<float>(epsilon),
          .kept = static_cast<float>(1 - rate * decay),
          .rate = static_cast<float>(rate / (1 - std::pow(beta1, step)))};
}

void check_size(const char* where, size_t got, size_t expected) {
  check_shape("adamw", where, std::array{static_cast<int64_t>(got)},
              {static_cast<int64_t>(expected)});
}

}  // namespace

void adamw(std::span<float> values, std::span<float> gradient, std::span<float> m,
           std::span<float> v, const AdamW& settings) {
  check_size("gradient", gradient.size(), values.size());
  check_size("m", m.size(), values.size());
  check_size("v", v.size(), values.size());
  if (settings.step < 1) {
    fail("adamw", "steps are counted from 1", "step", fmt::format("{}", settings.step),
         "at least 1");
  }
  const AdamWStep step = prepare(settings);
  parallel_panels(static_cast<int64_t>(values.size()), kPart, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(adamw_part)
    (step, &values[begin], &gradient[begin], &m[begin], &v[begin], end - begin);
  });
}

}  // namespace headwise
#endif  // HWY_ONCE
