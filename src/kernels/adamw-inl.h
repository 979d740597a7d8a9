// The step of AdamW on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_ADAMW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_ADAMW_INL_H_
#undef HEADWISE_KERNELS_ADAMW_INL_H_
#else
#define HEADWISE_KERNELS_ADAMW_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/adamw_step.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void adamw_part(const AdamWStep& step, float* values, float* gradient, float* m, float* v,
                int64_t size) {
  const RowTag d;
  for_vectors(size, [&](int64_t i, int64_t count) HEADWISE_LAMBDA {
    const RowVec g = hn::Mul(load_n(gradient + i, count), hn::Set(d, step.gradient_scale));
    const RowVec old_mean = load_n(m + i, count);
    const RowVec mean = hn::MulAdd(hn::Sub(g, old_mean), hn::Set(d, step.new_mean), old_mean);
    const RowVec square = hn::MulAdd(hn::Mul(g, g), hn::Set(d, step.new_square),
                                     hn::Mul(load_n(v + i, count), hn::Set(d, step.old_square)));
    const RowVec spread =
        hn::MulAdd(hn::Sqrt(square), hn::Set(d, step.spread), hn::Set(d, step.epsilon));
    const RowVec decayed = hn::Mul(load_n(values + i, count), hn::Set(d, step.kept));
    store_n(hn::Zero(d), gradient + i, count);
    store_n(mean, m + i, count);
    store_n(square, v + i, count);
    store_n(hn::NegMulAdd(hn::Set(d, step.rate), hn::Div(mean, spread), decayed), values + i,
            count);
  });
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
