// Softmax and its kin on rows: checks, rows for threads, dispatch to the SIMD target.
#include "headwise/kernels/softmax.h"

#include <algorithm>
#include <limits>

#include "headwise/core/parallel.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/softmax.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/softmax-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(log_sum_exp_rows);
HWY_EXPORT(softmax_rows);
HWY_EXPORT(argmax_rows);

template <class T>
void check(const char* op, View<const float, 2> x, std::span<T> out) {
  check_contiguous_columns(op, "x", x);
  check_shape(op, "out", std::array{static_cast<int64_t>(out.size())}, {x.extent(0)});
}

}  // namespace

void log_sum_exp(View<const float, 2> x, std::span<float> out) {
  check("log_sum_exp", x, out);
  if (x.empty()) return std::fill(out.begin(), out.end(), -std::numeric_limits<float>::infinity());
  parallel_panels(x.extent(0), rows_per_item(x.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(log_sum_exp_rows)(x.rows(begin, end), &out[begin]);
  });
}

void softmax(View<float, 2> x) {
  check_contiguous_columns("softmax", "x", x);
  if (x.empty()) return;
  parallel_panels(x.extent(0), rows_per_item(x.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(softmax_rows)(x.rows(begin, end));
  });
}

void argmax(View<const float, 2> x, std::span<int32_t> out) {
  check("argmax", x, out);
  if (x.extent(0) > 0 && (x.extent(1) < 1 || x.extent(1) > INT32_MAX)) {
    fail("argmax", "the row has no largest that can be named", "x",
         fmt::format("{} columns", x.extent(1)), fmt::format("1 to {}", INT32_MAX));
  }
  parallel_panels(x.extent(0), rows_per_item(x.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(argmax_rows)(x.rows(begin, end), &out[begin]);
  });
}

}  // namespace headwise
#endif  // HWY_ONCE
