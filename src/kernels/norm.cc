// Normalisation of rows: checks, rows for threads, dispatch to the SIMD target.
#include "headwise/kernels/norm.h"

#include "headwise/core/parallel.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/norm-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(rms_norm_rows);

void check_vector(const char* op, const char* where, View<const float, 1> vector, int64_t columns) {
  check_shape(op, where, vector.shape(), {columns});
  check_contiguous_columns(op, where, vector);
}

void rms_norm_heads(View<const float, 3> x, View<const float, 1> weight, float epsilon,
                    View<float, 3> out) {
  check_vector("rms_norm", "weight", weight, x.extent(2));
  if (x.empty()) return;
  parallel_panels(x.extent(0), rows_per_item(x.extent(1) * x.extent(2)),
                  [&](int64_t begin, int64_t end) {
                    HWY_DYNAMIC_DISPATCH(rms_norm_rows)
                    (x.rows(begin, end), weight.data(), epsilon, out.rows(begin, end));
                  });
}

template <class T>
View<T, 3> as_one_head(View<T, 2> x) {
  return {x.data(), {x.extent(0), 1, x.extent(1)}, {x.stride(0), x.extent(1), x.stride(1)}};
}

}  // namespace

void layer_norm(View<const float, 2> x, View<const float, 1> weight, View<const float, 1> bias,
                float epsilon, View<float, 2> out) {
  check_shape("layer_norm", "out", out.shape(), x.shape());
  check_contiguous_columns("layer_norm", "x", x);
  check_contiguous_columns("layer_norm", "out", out);
  check_vector("layer_norm", "weight", weight, x.extent(1));
  if (bias.data() != nullptr) check_vector("layer_norm", "bias", bias, x.extent(1));
  if (x.empty()) return;
  parallel_panels(x.extent(0), rows_per_item(x.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(layer_norm_rows)
    (x.rows(begin, end), weight.data(), bias.data(), epsilon, out.rows(begin, end));
  });
}

void rms_norm(View<const float, 2> x, View<const float, 1> weight, float epsilon,
              View<float, 2> out) {
  check_shape("rms_norm", "out", out.shape(), x.shape());
  check_contiguous_columns("rms_norm", "x", x);
  check_contiguous_columns("rms_norm", "out", out);
  rms_norm_heads(as_one_head(x), weight, epsilon, as_one_head(out));
}

void rms_norm(View<float, 3> x, View<const float, 1> weight, float epsilon) {
  check_contiguous_columns("rms_norm", "x", x);
  rms_norm_heads(x, weight, epsilon, x);
}

}  // namespace headwise
#endif  // HWY_ONCE
