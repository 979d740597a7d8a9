// Activation times a factor, and its gradients, on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_GLU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_GLU_INL_H_
#undef HEADWISE_KERNELS_GLU_INL_H_
#else
#define HEADWISE_KERNELS_GLU_INL_H_
#endif

#include "headwise/core/view.h"
#include "hwy/highway.h"
#include "kernels/activation-inl.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class Act>
void glu_row(const float* gate, const float* up, float* out, int64_t columns) {
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec opened = Act::apply(RowTag(), load_n(gate + c, count));
    store_n(hn::Mul(opened, load_n(up + c, count)), out + c, count);
  });
}

void glu_rows(View<const float, 2> gate, View<const float, 2> up, Activation activation,
              View<float, 2> out) {
  const auto row = with_activation(activation, [](auto act) { return &glu_row<decltype(act)>; });
  for (int64_t t = 0; t < gate.extent(0); ++t) {
    row(&gate(t, 0), &up(t, 0), &out(t, 0), gate.extent(1));
  }
}

template <class Act>
void glu_backward_row(const float* gate, const float* up, const float* dout, float* dgate,
                      float* dup, int64_t columns) {
  const RowTag d;
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec x = load_n(gate + c, count);
    const RowVec dy = load_n(dout + c, count);
    const RowVec slope = hn::Mul(Act::slope(d, x), load_n(up + c, count));
    store_n(hn::Mul(dy, slope), dgate + c, count);
    store_n(hn::Mul(dy, Act::apply(d, x)), dup + c, count);
  });
}

void glu_backward_rows(View<const float, 2> gate, View<const float, 2> up, Activation activation,
                       View<const float, 2> dout, View<float, 2> dgate, View<float, 2> dup) {
  const auto row =
      with_activation(activation, [](auto act) { return &glu_backward_row<decltype(act)>; });
  for (int64_t t = 0; t < gate.extent(0); ++t) {
    row(&gate(t, 0), &up(t, 0), &dout(t, 0), &dgate(t, 0), &dup(t, 0), gate.extent(1));
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
