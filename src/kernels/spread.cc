// In two passes, which loses nothing where numbers hardly vary.
#include "kernels/spread.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/spread.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {

Spread spread_of_row(const float* x, const float* y, const float* counted, int64_t n,
                     int64_t columns) {
  const double sum = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    return hn::Mul(load_some(x + c, count), load_some(counted + c, count));
  });
  const double mean = sum / static_cast<double>(n);
  const RowVec shift = hn::Set(RowTag(), static_cast<float>(mean));
  const auto from_mean = [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    return hn::Mul(hn::Sub(load_some(x + c, count), shift), load_some(counted + c, count));
  };
  return {.mean = mean,
          .squares = sum_row(columns,
                             [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
                               const RowVec d = from_mean(c, count);
                               return hn::Mul(d, d);
                             }),
          .products = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
            return hn::Mul(from_mean(c, count), load_some(y + c, count));
          })};
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {
HWY_EXPORT(spread_of_row);
}  // namespace

Spread spread(const float* x, const float* y, const float* counted, int64_t n, int64_t columns) {
  return HWY_DYNAMIC_DISPATCH(spread_of_row)(x, y, counted, n, columns);
}

}  // namespace headwise
#endif  // HWY_ONCE
