// Activations and their gradients: checks, rows for threads, dispatch to the SIMD target.
#include "headwise/kernels/activation.h"

#include "headwise/core/parallel.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/activation_rows-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(activate_rows);
HWY_EXPORT(activate_backward_rows);

}  // namespace

void activate(View<const float, 2> x, Activation activation, View<float, 2> out) {
  check_rows("activate", "x", x, x.shape());
  check_rows("activate", "out", out, x.shape());
  if (x.empty()) return;
  parallel_panels(x.extent(0), rows_per_item(x.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(activate_rows)(x.rows(begin, end), activation, out.rows(begin, end));
  });
}

void activate_backward(View<const float, 2> x, Activation activation, View<const float, 2> dy,
                       View<float, 2> dx) {
  check_rows("activate_backward", "x", x, x.shape());
  check_rows("activate_backward", "dy", dy, x.shape());
  check_rows("activate_backward", "dx", dx, x.shape());
  if (x.empty()) return;
  parallel_panels(x.extent(0), rows_per_item(x.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(activate_backward_rows)
    (x.rows(begin, end), activation, dy.rows(begin, end), dx.rows(begin, end));
  });
}

}  // namespace headwise
#endif  // HWY_ONCE
