// The exponential function of softmax on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_EXP_INL_H_
#undef HEADWISE_KERNELS_EXP_INL_H_
#else
#define HEADWISE_KERNELS_EXP_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// 2^t for t ≤ 0, to about 2 units in the last place; below 2^-126 it stays there. NaN stays NaN.
template <class V>
HWY_INLINE V exp2_nonpositive(V t) {
  const hn::DFromV<V> d;
  const hn::RebindToSigned<decltype(d)> di;
  // 1.5 * 2^23 + 127: the low bits of the sum are round(t), with the bias of an exponent.
  const V magic = hn::Set(d, 12582912.0f + 127.0f);
  t = hn::Max(hn::Set(d, -126.0f), t);
  const V shifted = hn::Add(t, magic);
  const V f = hn::Sub(t, hn::Sub(shifted, magic));
  // In pairs rather than Horner's chain: latency is what limits this loop.
  const V f2 = hn::Mul(f, f);
  const V low = hn::MulAdd(hn::Set(d, 6.9314697758e-01f), f, hn::Set(d, 1.0f));
  const V middle = hn::MulAdd(hn::Set(d, 5.5507337665e-02f), f, hn::Set(d, 2.4022242074e-01f));
  const V high = hn::MulAdd(hn::Set(d, 1.3264720198e-03f), f, hn::Set(d, 9.6715131392e-03f));
  const V p = hn::MulAdd(hn::MulAdd(high, f2, middle), f2, low);
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
