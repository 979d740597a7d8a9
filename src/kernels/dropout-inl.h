// Dropout of rows on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_DROPOUT_INL_H_
#undef HEADWISE_KERNELS_DROPOUT_INL_H_
#else
#define HEADWISE_KERNELS_DROPOUT_INL_H_
#endif

#include <algorithm>

#include "headwise/core/view.h"
#include "hwy/highway.h"
#include "kernels/dropout_draws.h"
#include "kernels/philox-inl.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// out = x * factor, or 0 where the draw is below the threshold, plus the residual if there is one.
class DropoutRow {
 public:
  DropoutRow(const float* x, const float* residual, float* out, int64_t columns, uint32_t threshold)
      : x_(x),
        residual_(residual),
        out_(out),
        columns_(columns),
        threshold_(hn::Set(hn::RebindToSigned<RowTag>(), static_cast<int32_t>(threshold))),
        factor_(hn::Set(RowTag(), keep_factor(threshold))) {}

  HWY_INLINE void run(const Dropout& dropout, int64_t row) const {
    if (drop_threshold(dropout.p) == 0) return keep_all();
    constexpr int kVectors = kDrawLanes / kRowLanes;
    for (int64_t chunk = 0; chunk < columns_; chunk += kDrawChunk) {
      Words words[4][kVectors];
      philox_lanes(draw_counter(dropout.stream, row, chunk), dropout.seed, words);
      HWY_UNROLL(4)
      for (int w = 0; w < 4; ++w) {
        HWY_UNROLL(4)
        for (int n = 0; n < kVectors; ++n) {
          const int64_t c = chunk + w * kDrawsPerWord * kDrawLanes + n * kRowLanes;
          apply(hn::And(words[w][n], hn::Set(WordTag(), 0xffff)), c);
          apply(hn::ShiftRight<16>(words[w][n]), c + kDrawLanes);
        }
      }
    }
  }

 private:
  HWY_INLINE void keep_all() const {
    for (int64_t c = 0; c < columns_; c += kRowLanes) apply(hn::Set(WordTag(), 0xffff), c);
  }

  /// The columns from c on, as many as a vector and the row have.
  HWY_INLINE void apply(Words draws, int64_t c) const {
    if (c >= columns_) return;
    const RowTag d;
    const hn::RebindToSigned<RowTag> di;
    const int64_t count = std::min(kRowLanes, columns_ - c);
    const auto dropped = hn::RebindMask(d, hn::Lt(hn::BitCast(di, draws), threshold_));
    const RowVec kept = hn::IfThenZeroElse(dropped, hn::Mul(load_n(x_ + c, count), factor_));
    const RowVec sum = residual_ == nullptr ? kept : hn::Add(load_n(residual_ + c, count), kept);
    store_n(sum, out_ + c, count);
  }

  const float* x_;
  const float* residual_;
  float* out_;
  int64_t columns_;
  hn::Vec<hn::RebindToSigned<RowTag>> threshold_;
  RowVec factor_;
};

/// Rows from `first_row` on; a residual without data is none.
void dropout_rows(View<const float, 2> x, const Dropout& dropout, int64_t first_row,
                  View<const float, 2> residual, View<float, 2> out) {
  const uint32_t threshold = drop_threshold(dropout.p);
  for (int64_t t = 0; t < x.extent(0); ++t) {
    const float* const to_add = residual.data() == nullptr ? nullptr : &residual(t, 0);
    const int64_t row = first_row + t;
    DropoutRow(&x(t, 0), to_add, &out(t, 0), x.extent(1), threshold)
        .run(dropout, dropout.rows.empty() ? row : dropout.rows[row]);
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
