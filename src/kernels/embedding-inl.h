// Rows times a number, copied or added, on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_EMBEDDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_EMBEDDING_INL_H_
#undef HEADWISE_KERNELS_EMBEDDING_INL_H_
#else
#define HEADWISE_KERNELS_EMBEDDING_INL_H_
#endif

#include "headwise/core/view.h"
#include "hwy/highway.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void scale_row(const float* from, float scale, bool add, int64_t columns, float* to) {
  const RowVec factor = hn::Set(RowTag(), scale);
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec old = add ? load_n(to + c, count) : hn::Zero(RowTag());
    store_n(hn::MulAdd(load_n(from + c, count), factor, old), to + c, count);
  });
}

void embedding_rows(View<const float, 2> table, const int32_t* rows, float scale, bool add,
                    View<float, 2> out) {
  for (int64_t t = 0; t < out.extent(0); ++t) {
    scale_row(&table(rows[t], 0), scale, add, out.extent(1), &out(t, 0));
  }
}

void embedding_backward_rows(View<const float, 2> dout, const int32_t* rows, float scale,
                             View<float, 2> dtable) {
  for (int64_t t = 0; t < dout.extent(0); ++t) {
    scale_row(&dout(t, 0), scale, true, dout.extent(1), &dtable(rows[t], 0));
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
