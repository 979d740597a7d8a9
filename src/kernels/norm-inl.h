// Normalisation of rows and its gradients on SIMD vectors. Compiled once per SIMD target.
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

/// What layer norm subtracts from a row, in two parts, and multiplies it by.
struct LayerMoments {
  RowVec mean, rest, scale;
  HWY_INLINE RowVec normalise(RowVec x) const {
    return hn::Mul(hn::Sub(hn::Sub(x, mean), rest), scale);
  }
};

/// Two passes, corrected: what rounding the mean left over is found as the mean of what remains.
HWY_INLINE LayerMoments layer_moments(const float* x, float epsilon, int64_t columns) {
  const RowTag d;
  const auto n = static_cast<double>(columns);
  const auto row = [&](int64_t c, int64_t count) HEADWISE_LAMBDA { return load_n(x + c, count); };
  const RowVec mean = hn::Set(d, static_cast<float>(sum_row(columns, row) / n));
  const auto centred = [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    return keep_n(hn::Sub(load_n(x + c, count), mean), count);
  };
  const auto squared = [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = centred(c, count);
    return hn::Mul(v, v);
  };
  const double left_over = sum_row(columns, centred) / n;
  const double variance = sum_row(columns, squared) / n - left_over * left_over;
  return {mean, hn::Set(d, static_cast<float>(left_over)),
          hn::Set(d, static_cast<float>(1 / std::sqrt(variance + epsilon)))};
}

void layer_norm_row(const float* x, const float* weight, const float* bias, float epsilon,
                    int64_t columns, float* out) {
  const LayerMoments moments = layer_moments(x, epsilon, columns);
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = moments.normalise(load_n(x + c, count));
    const RowVec shift = bias == nullptr ? hn::Zero(RowTag()) : load_n(bias + c, count);
    store_n(hn::MulAdd(v, load_n(weight + c, count), shift), out + c, count);
  });
}

void layer_norm_rows(View<const float, 2> x, const float* weight, const float* bias, float epsilon,
                     View<float, 2> out) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    layer_norm_row(&x(t, 0), weight, bias, epsilon, x.extent(1), &out(t, 0));
  }
}

HWY_INLINE RowVec rms_scale(const float* x, float epsilon, int64_t columns) {
  const double squares = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = load_n(x + c, count);
    return hn::Mul(v, v);
  });
  const double mean = squares / static_cast<double>(columns);
  return hn::Set(RowTag(), static_cast<float>(1 / std::sqrt(mean + epsilon)));
}

void rms_norm_row(const float* x, const float* weight, float epsilon, int64_t columns, float* out) {
  const RowVec scale = rms_scale(x, epsilon, columns);
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = hn::Mul(load_n(x + c, count), scale);
    store_n(hn::Mul(v, load_n(weight + c, count)), out + c, count);
  });
}

void rms_norm_rows(View<const float, 3> x, const float* weight, float epsilon, View<float, 3> out) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    for (int64_t h = 0; h < x.extent(1); ++h) {
      rms_norm_row(&x(t, h, 0), weight, epsilon, x.extent(2), &out(t, h, 0));
    }
  }
}

HWY_INLINE void add_n(RowVec v, float* to, int64_t count) {
  store_n(hn::Add(load_n(to, count), v), to, count);
}

/// Gradients of one row; null for dweight or dbias leaves it out. With v the normalised row and g =
/// dy * weight: dx = scale * (g - mean(g) - v * mean(g v)).
void layer_norm_backward_row(const float* x, const float* weight, float epsilon, const float* dy,
                             int64_t columns, bool add, float* dx, float* dweight, float* dbias) {
  const RowTag d;
  const auto n = static_cast<double>(columns);
  const LayerMoments moments = layer_moments(x, epsilon, columns);
  const auto pull = [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    return hn::Mul(load_n(dy + c, count), load_n(weight + c, count));
  };
  const double pulls = sum_row(columns, pull);
  const double stretches = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    return hn::Mul(pull(c, count), moments.normalise(load_n(x + c, count)));
  });
  const RowVec mean_pull = hn::Set(d, static_cast<float>(pulls / n));
  const RowVec mean_stretch = hn::Set(d, static_cast<float>(stretches / n));
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = moments.normalise(load_n(x + c, count));
    const RowVec gradient = load_n(dy + c, count);
    if (dweight != nullptr) add_n(hn::Mul(gradient, v), dweight + c, count);
    if (dbias != nullptr) add_n(gradient, dbias + c, count);
    const RowVec moved = hn::NegMulAdd(v, mean_stretch, hn::Sub(pull(c, count), mean_pull));
    const RowVec old = add ? load_n(dx + c, count) : hn::Zero(d);
    store_n(hn::MulAdd(moved, moments.scale, old), dx + c, count);
  });
}

void layer_norm_backward_rows(View<const float, 2> x, const float* weight, float epsilon,
                              View<const float, 2> dy, bool add, View<float, 2> dx, float* dweight,
                              float* dbias) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    layer_norm_backward_row(&x(t, 0), weight, epsilon, &dy(t, 0), x.extent(1), add, &dx(t, 0),
                            dweight, dbias);
  }
}

/// As above, without what the mean did: dx = scale * (g - v * mean(g v)).
void rms_norm_backward_row(const float* x, const float* weight, float epsilon, const float* dy,
                           int64_t columns, bool add, float* dx, float* dweight) {
  const RowTag d;
  const RowVec scale = rms_scale(x, epsilon, columns);
  const auto pull = [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    return hn::Mul(load_n(dy + c, count), load_n(weight + c, count));
  };
  const double stretches = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    return hn::Mul(pull(c, count), hn::Mul(load_n(x + c, count), scale));
  });
  const RowVec mean_stretch =
      hn::Set(d, static_cast<float>(stretches / static_cast<double>(columns)));
  for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec v = hn::Mul(load_n(x + c, count), scale);
    if (dweight != nullptr) add_n(hn::Mul(load_n(dy + c, count), v), dweight + c, count);
    const RowVec moved = hn::NegMulAdd(v, mean_stretch, pull(c, count));
    const RowVec old = add ? load_n(dx + c, count) : hn::Zero(d);
    store_n(hn::MulAdd(moved, scale, old), dx + c, count);
  });
}

void rms_norm_backward_rows(View<const float, 3> x, const float* weight, float epsilon,
                            View<const float, 3> dy, bool add, View<float, 3> dx, float* dweight) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    for (int64_t h = 0; h < x.extent(1); ++h) {
      rms_norm_backward_row(&x(t, h, 0), weight, epsilon, &dy(t, h, 0), x.extent(2), add,
                            &dx(t, h, 0), dweight);
    }
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
