// Dropout: checks, rows for threads, dispatch to the SIMD target.
#include "headwise/kernels/dropout.h"

#include "headwise/core/parallel.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dropout.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/dropout-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(dropout_rows);

void check(const char* op, View<const float, 2> x, const Dropout& dropout, View<float, 2> out) {
  if (!(dropout.p >= 0 && dropout.p < 1)) {
    fail(op, "the probability is out of range", "p", fmt::format("{}", dropout.p),
         "at least 0 and below 1");
  }
  check_rows(op, "x", x, x.shape());
  check_rows(op, "out", out, x.shape());
  if (!dropout.rows.empty()) {
    check_shape(op, "rows", std::array{std::ssize(dropout.rows)}, {x.extent(0)});
  }
}

void drop(View<const float, 2> x, const Dropout& dropout, View<const float, 2> residual,
          View<float, 2> out) {
  if (x.empty()) return;
  parallel_panels(x.extent(0), rows_per_item(x.extent(1)), [&](int64_t begin, int64_t end) {
    const auto to_add = residual.data() == nullptr ? residual : residual.rows(begin, end);
    HWY_DYNAMIC_DISPATCH(dropout_rows)
    (x.rows(begin, end), dropout, begin, to_add, out.rows(begin, end));
  });
}

}  // namespace

void dropout(View<const float, 2> x, const Dropout& dropout, View<float, 2> out) {
  check("dropout", x, dropout, out);
  drop(x, dropout, {}, out);
}

void add_dropout(View<const float, 2> x, const Dropout& dropout, View<const float, 2> residual,
                 View<float, 2> out) {
  check("add_dropout", x, dropout, out);
  check_rows("add_dropout", "residual", residual, x.shape());
  drop(x, dropout, residual, out);
}

}  // namespace headwise
#endif  // HWY_ONCE
