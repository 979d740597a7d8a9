// Log-sum-exp, softmax and the largest of rows on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_SOFTMAX_INL_H_
#undef HEADWISE_KERNELS_SOFTMAX_INL_H_
#else
#define HEADWISE_KERNELS_SOFTMAX_INL_H_
#endif

#include <cmath>

#include "headwise/core/view.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// exp(x - shift); exp(104) is infinite in float, as far as Highway's exp goes, and its exp of NaN
/// is 0.
HWY_INLINE RowVec shifted_exp(RowVec x, RowVec shift) {
  const RowTag d;
  const RowVec e = hn::Sub(x, shift);
  return hn::IfThenElse(hn::IsNaN(e), e, hn::Exp(d, hn::Min(hn::Set(d, 104.0f), e)));
}

inline float log_sum_exp_row(const float* row, int64_t columns) {
  const float most = max_row(row, columns);
  const float shift = std::isfinite(most) ? most : 0;
  const double sum = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    return keep_n(shifted_exp(load_n(row + c, count), hn::Set(RowTag(), shift)), count);
  });
  return static_cast<float>(shift + std::log(sum));
}

inline void log_sum_exp_rows(View<const float, 2> x, float* out) {
  for (int64_t t = 0; t < x.extent(0); ++t) out[t] = log_sum_exp_row(&x(t, 0), x.extent(1));
}

inline void softmax_row(float* row, int64_t columns) {
  const RowVec most = hn::Set(RowTag(), max_row(row, columns));
  const double sum = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec e = keep_n(shifted_exp(load_n(row + c, count), most), count);
    store_n(e, row + c, count);
    return e;
  });
  const RowVec factor = hn::Set(RowTag(), static_cast<float>(1 / sum));
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    store_n(hn::Mul(load_n(row + c, count), factor), row + c, count);
  });
}

inline void softmax_rows(View<float, 2> x) {
  for (int64_t t = 0; t < x.extent(0); ++t) softmax_row(&x(t, 0), x.extent(1));
}

/// The first NaN, or else the first of the largest.
inline int64_t argmax_row(const float* row, int64_t columns) {
  const RowTag d;
  const bool ordered = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
                         const auto nan = hn::IsNaN(load_n(row + c, count));
                         return hn::IfThenElseZero(nan, hn::Set(d, 1.0f));
                       }) == 0;
  if (!ordered) {
    return std::find_if(row, row + columns, [](float x) { return std::isnan(x); }) - row;
  }
  const float most = max_row(row, columns);
  int64_t c = 0;
  for (; c + kRowLanes <= columns; c += kRowLanes) {
    const intptr_t lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, row + c), hn::Set(d, most)));
    if (lane >= 0) return c + lane;
  }
  return std::find(row + c, row + columns, most) - row;
}

inline void argmax_rows(View<const float, 2> x, int32_t* out) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    out[t] = static_cast<int32_t>(argmax_row(&x(t, 0), x.extent(1)));
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
