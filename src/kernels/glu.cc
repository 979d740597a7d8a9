// Gated activation: checks, rows for threads, dispatch to the SIMD target.
#include "headwise/kernels/glu.h"

#include "headwise/core/parallel.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/glu.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/glu-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(glu_rows);
HWY_EXPORT(glu_backward_rows);

}  // namespace

void glu(View<const float, 2> gate, View<const float, 2> up, Activation activation,
         View<float, 2> out) {
  check_rows("glu", "gate", gate, gate.shape());
  check_rows("glu", "up", up, gate.shape());
  check_rows("glu", "out", out, gate.shape());
  if (out.empty()) return;
  parallel_panels(gate.extent(0), rows_per_item(gate.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(glu_rows)
    (gate.rows(begin, end), up.rows(begin, end), activation, out.rows(begin, end));
  });
}

void glu_backward(View<const float, 2> gate, View<const float, 2> up, Activation activation,
                  View<const float, 2> dout, View<float, 2> dgate, View<float, 2> dup) {
  check_rows("glu_backward", "gate", gate, gate.shape());
  check_rows("glu_backward", "up", up, gate.shape());
  check_rows("glu_backward", "dout", dout, gate.shape());
  check_rows("glu_backward", "dgate", dgate, gate.shape());
  check_rows("glu_backward", "dup", dup, gate.shape());
  if (gate.empty()) return;
  parallel_panels(gate.extent(0), rows_per_item(gate.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(glu_backward_rows)
    (gate.rows(begin, end), up.rows(begin, end), activation, dout.rows(begin, end),
     dgate.rows(begin, end), dup.rows(begin, end));
  });
}

}  // namespace headwise
#endif  // HWY_ONCE
