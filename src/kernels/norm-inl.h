// Normalisation of rows on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_NORM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_NORM_INL_H_
#undef HEADWISE_KERNELS_NORM_INL_H_
#else
#define HEADWISE_KERNELS_NORM_INL_H_
#endif

#include <cmath>

#include "headwise/core/view.h"
#include "hwy/highway.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Two passes, corrected: what rounding the mean left over is found as the mean of what remains.
void layer_norm_row(const float* x, const float* weight, const float* bias, float epsilon,
                    int64_t columns, float* out) {
  const RowTag d;
  const auto n = static_cast<double>(columns);
  const auto row = [&](int64_t c, int64_t count)
                       HEADWISE_LAMBDA { return load_some(x + c, count); };
  const RowVec mean = hn::Set(d, static_cast<float>(sum_row(columns, row) / n));
  const auto centred = [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    return keep_some(hn::Sub(load_some(x + c, count), mean), count);
  };
  const auto squared = [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = centred(c, count);
    return hn::Mul(v, v);
  };
  const double left_over = sum_row(columns, centred) / n;
  const double variance = sum_row(columns, squared) / n - left_over * left_over;
  const RowVec rest = hn::Set(d, static_cast<float>(left_over));
  const RowVec scale = hn::Set(d, static_cast<float>(1 / std::sqrt(variance + epsilon)));
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = hn::Mul(hn::Sub(hn::Sub(load_some(x + c, count), mean), rest), scale);
    const RowVec shift = bias == nullptr ? hn::Zero(d) : load_some(bias + c, count);
    store_some(hn::MulAdd(v, load_some(weight + c, count), shift), out + c, count);
  });
}

void layer_norm_rows(View<const float, 2> x, const float* weight, const float* bias, float epsilon,
                     View<float, 2> out) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    layer_norm_row(&x(t, 0), weight, bias, epsilon, x.extent(1), &out(t, 0));
  }
}

void rms_norm_row(const float* x, const float* weight, float epsilon, int64_t columns, float* out) {
  const double squares = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = load_some(x + c, count);
    return hn::Mul(v, v);
  });
  const double mean = squares / static_cast<double>(columns);
  const RowVec scale = hn::Set(RowTag(), static_cast<float>(1 / std::sqrt(mean + epsilon)));
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = hn::Mul(load_some(x + c, count), scale);
    store_some(hn::Mul(v, load_some(weight + c, count)), out + c, count);
  });
}

void rms_norm_rows(View<const float, 3> x, const float* weight, float epsilon, View<float, 3> out) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    for (int64_t h = 0; h < x.extent(1); ++h) {
      rms_norm_row(&x(t, h, 0), weight, epsilon, x.extent(2), &out(t, h, 0));
    }
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
