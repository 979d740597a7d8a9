// Gated activation: checks, rows for threads, dispatch to the SIMD target.
#include "headwise/kernels/gated.h"

#include "headwise/core/parallel.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gated.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/gated-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(gate_rows);

}  // namespace

void gate(View<const float, 2> gate, View<const float, 2> up, Activation activation,
          View<float, 2> out) {
  check_shape("gate", "up", up.shape(), gate.shape());
  check_shape("gate", "out", out.shape(), gate.shape());
  check_contiguous_columns("gate", "gate", gate);
  check_contiguous_columns("gate", "up", up);
  check_contiguous_columns("gate", "out", out);
  if (out.empty()) return;
  parallel_panels(gate.extent(0), rows_per_item(gate.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(gate_rows)
    (gate.rows(begin, end), up.rows(begin, end), activation, out.rows(begin, end));
  });
}

}  // namespace headwise
#endif  // HWY_ONCE
