// Parts for threads, added up in their order.
#include "headwise/kernels/sum_of_squares.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "headwise/core/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sum_of_squares.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/lambda.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

double sum_of_squares_part(const float* x, int64_t size) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const int64_t lanes = HWY_LANES(double);
  auto a = hn::Zero(d), b = hn::Zero(d), c = hn::Zero(d), e = hn::Zero(d);
  const auto add = [&](hn::Vec<decltype(d)>& sum, int64_t i) HEADWISE_LAMBDA {
    const auto value = hn::PromoteTo(d, hn::LoadU(half, x + i));
    sum = hn::MulAdd(value, value, sum);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= size; i += 4 * lanes) {
    add(a, i);
    add(b, i + lanes);
    add(c, i + 2 * lanes);
    add(e, i + 3 * lanes);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(c, e))));
  for (; i < size; ++i) sum += double{x[i]} * x[i];
  return sum;
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(sum_of_squares_part);

constexpr int64_t kPart = 32768;

}  // namespace

double sum_of_squares(std::span<const float> x) {
  const auto size = static_cast<int64_t>(x.size());
  if (size <= kPart) return HWY_DYNAMIC_DISPATCH(sum_of_squares_part)(x.data(), size);
  std::vector<double> parts((size + kPart - 1) / kPart);
  parallel_panels(size, kPart, [&](int64_t begin, int64_t end) {
    parts[begin / kPart] = HWY_DYNAMIC_DISPATCH(sum_of_squares_part)(&x[begin], end - begin);
  });
  return std::accumulate(parts.begin(), parts.end(), 0.0);
}

}  // namespace headwise
#endif  // HWY_ONCE
