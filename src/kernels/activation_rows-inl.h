// Activations of rows and their gradients on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_ACTIVATION_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_ACTIVATION_ROWS_INL_H_
#undef HEADWISE_KERNELS_ACTIVATION_ROWS_INL_H_
#else
#define HEADWISE_KERNELS_ACTIVATION_ROWS_INL_H_
#endif

#include "headwise/core/view.h"
#include "hwy/highway.h"
#include "kernels/activation-inl.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Act>
void activate_row(const float* x, float* out, int64_t columns) {
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    store_n(Act::apply(RowTag(), load_n(x + c, count)), out + c, count);
  });
}

void activate_rows(View<const float, 2> x, Activation activation, View<float, 2> out) {
  const auto row =
      with_activation(activation, [](auto act) { return &activate_row<decltype(act)>; });
  for (int64_t t = 0; t < x.extent(0); ++t) row(&x(t, 0), &out(t, 0), x.extent(1));
}

template <class Act>
void activate_backward_row(const float* x, const float* dy, float* dx, int64_t columns) {
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec slope = Act::slope(RowTag(), load_n(x + c, count));
    store_n(hn::Mul(load_n(dy + c, count), slope), dx + c, count);
  });
}

void activate_backward_rows(View<const float, 2> x, Activation activation, View<const float, 2> dy,
                            View<float, 2> dx) {
  const auto row =
      with_activation(activation, [](auto act) { return &activate_backward_row<decltype(act)>; });
  for (int64_t t = 0; t < x.extent(0); ++t) row(&x(t, 0), &dy(t, 0), &dx(t, 0), x.extent(1));
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
