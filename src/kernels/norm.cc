// Normalisation of rows: checks, rows for threads, dispatch to the SIMD target.
#include "headwise/kernels/norm.h"

#include "headwise/core/buffer.h"
#include "headwise/core/parallel.h"
#include "headwise/kernels/gemm.h"
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
HWY_EXPORT(layer_norm_backward_rows);
HWY_EXPORT(rms_norm_backward_rows);

void rms_norm_heads(View<const float, 3> x, View<const float, 1> weight, float epsilon,
                    View<float, 3> out) {
  check_rows("rms_norm", "weight", weight, {x.extent(2)});
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

/// A sum over all rows that threads add to: each panel of rows by itself, then the panels in order.
class PanelSums {
 public:
  PanelSums(View<float, 1> to, int64_t panels)
      : to_(to), parts_(Buffer::zeros(to.data() == nullptr ? 0 : panels * to.extent(0))) {}

  /// Where panel i adds to; null if nobody asked for the sum.
  float* part(int64_t i) const {
    return to_.data() == nullptr ? nullptr : parts_.data() + i * to_.extent(0);
  }
  void finish() const {
    if (parts_.size() == 0) return;
    sum_rows(parts_.view({parts_.size() / to_.extent(0), to_.extent(0)}), to_);
  }

 private:
  View<float, 1> to_;
  Buffer parts_;
};

void check_sum(const char* op, const char* where, View<float, 1> sum, int64_t columns) {
  if (sum.data() != nullptr) check_rows(op, where, sum, {columns});
}

void rms_norm_heads_backward(View<const float, 3> x, View<const float, 1> weight, float epsilon,
                             View<const float, 3> dy, bool add, View<float, 3> dx,
                             View<float, 1> dweight) {
  check_rows("rms_norm_backward", "x", x, x.shape());
  check_rows("rms_norm_backward", "dx", dx, x.shape());
  check_rows("rms_norm_backward", "weight", weight, {x.extent(2)});
  check_sum("rms_norm_backward", "dweight", dweight, x.extent(2));
  if (x.empty()) return;
  const int64_t panel = rows_per_item(x.extent(1) * x.extent(2));
  const PanelSums weight_sums(dweight, (x.extent(0) + panel - 1) / panel);
  parallel_panels(x.extent(0), panel, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(rms_norm_backward_rows)
    (x.rows(begin, end), weight.data(), epsilon, dy.rows(begin, end), add, dx.rows(begin, end),
     weight_sums.part(begin / panel));
  });
  weight_sums.finish();
}

}  // namespace

void layer_norm(View<const float, 2> x, View<const float, 1> weight, View<const float, 1> bias,
                float epsilon, View<float, 2> out) {
  check_rows("layer_norm", "x", x, x.shape());
  check_rows("layer_norm", "out", out, x.shape());
  check_rows("layer_norm", "weight", weight, {x.extent(1)});
  if (bias.data() != nullptr) check_rows("layer_norm", "bias", bias, {x.extent(1)});
  if (x.empty()) return;
  parallel_panels(x.extent(0), rows_per_item(x.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(layer_norm_rows)
    (x.rows(begin, end), weight.data(), bias.data(), epsilon, out.rows(begin, end));
  });
}

void rms_norm(View<const float, 2> x, View<const float, 1> weight, float epsilon,
              View<float, 2> out) {
  check_rows("rms_norm", "x", x, x.shape());
  check_rows("rms_norm", "out", out, x.shape());
  rms_norm_heads(as_one_head(x), weight, epsilon, as_one_head(out));
}

void rms_norm(View<float, 3> x, View<const float, 1> weight, float epsilon) {
  check_contiguous_columns("rms_norm", "x", x);
  rms_norm_heads(x, weight, epsilon, x);
}

void layer_norm_backward(View<const float, 2> x, View<const float, 1> weight, float epsilon,
                         View<const float, 2> dy, const NormGradients& gradients) {
  const int64_t columns = x.extent(1);
  check_rows("layer_norm_backward", "x", x, x.shape());
  check_rows("layer_norm_backward", "weight", weight, {columns});
  check_rows("layer_norm_backward", "dy", dy, x.shape());
  check_rows("layer_norm_backward", "dx", gradients.dx, x.shape());
  check_sum("layer_norm_backward", "dweight", gradients.dweight, columns);
  check_sum("layer_norm_backward", "dbias", gradients.dbias, columns);
  if (x.empty()) return;
  const int64_t panel = rows_per_item(columns);
  const int64_t panels = (x.extent(0) + panel - 1) / panel;
  const PanelSums weight_sums(gradients.dweight, panels), bias_sums(gradients.dbias, panels);
  parallel_panels(x.extent(0), panel, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(layer_norm_backward_rows)
    (x.rows(begin, end), weight.data(), epsilon, dy.rows(begin, end), gradients.add_to_dx,
     gradients.dx.rows(begin, end), weight_sums.part(begin / panel), bias_sums.part(begin / panel));
  });
  weight_sums.finish();
  bias_sums.finish();
}

void rms_norm_backward(View<const float, 2> x, View<const float, 1> weight, float epsilon,
                       View<const float, 2> dy, const NormGradients& gradients) {
  check_rows("rms_norm_backward", "dy", dy, x.shape());
  check_rows("rms_norm_backward", "dx", gradients.dx, x.shape());
  check_shape("rms_norm_backward", "dbias", gradients.dbias.shape(), {0});
  rms_norm_heads_backward(as_one_head(x), weight, epsilon, as_one_head(dy), gradients.add_to_dx,
                          as_one_head(gradients.dx), gradients.dweight);
}

void rms_norm_backward(View<const float, 3> x, View<const float, 1> weight, float epsilon,
                       View<float, 3> dx, View<float, 1> dweight) {
  rms_norm_heads_backward(x, weight, epsilon, dx, false, dx, dweight);
}

}  // namespace headwise
#endif  // HWY_ONCE
