// The rotation of pairs of columns on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_ROTARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_ROTARY_INL_H_
#undef HEADWISE_KERNELS_ROTARY_INL_H_
#else
#define HEADWISE_KERNELS_ROTARY_INL_H_
#endif

#include "headwise/core/view.h"
#include "hwy/highway.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Turns one row of all heads, x [H, D]; the other way for a direction of -1 instead of 1.
void rotate_heads(View<float, 2> x, const float* cosines, const float* sines, int64_t pairs,
                  float direction) {
  const RowVec sign = hn::Set(RowTag(), direction);
  for (int64_t h = 0; h < x.extent(0); ++h) {
    float* const first = &x(h, 0);
    float* const second = first + pairs;
    for_vectors(pairs, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
      const RowVec a = load_n(first + c, count);
      const RowVec b = load_n(second + c, count);
      const RowVec cosine = load_n(cosines + c, count);
      const RowVec sine = hn::Mul(load_n(sines + c, count), sign);
      store_n(hn::NegMulAdd(b, sine, hn::Mul(a, cosine)), first + c, count);
      store_n(hn::MulAdd(a, sine, hn::Mul(b, cosine)), second + c, count);
    });
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
