// Activation functions and their slopes on SIMD vectors, each a small type so that a kernel can be
// compiled for it. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_ACTIVATION_INL_H_
#undef HEADWISE_KERNELS_ACTIVATION_INL_H_
#else
#define HEADWISE_KERNELS_ACTIVATION_INL_H_
#endif

#include "headwise/kernels/activation.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// In Min and Max the operand that may be NaN comes second: x86 returns the second one then.

/// 1 / (1 + exp(-x)) as a divisor: exp(104) is infinite in float, as far as Highway's exp goes.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V one_plus_exp_minus(D d, V x) {
  return hn::Add(hn::Set(d, 1.0f), hn::Exp(d, hn::Min(hn::Set(d, 104.0f), hn::Neg(x))));
}

/// erf as a rational function of x², within 4 ulp (the coefficients of Eigen and XLA); 1 from 3.92
/// on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf(D d, V x) {
  const auto c = [d](float value) HWY_ATTR { return hn::Set(d, value); };
  const V square = hn::Mul(x, x);
  V p = c(-2.72614225801306e-10f);
  p = hn::MulAdd(p, square, c(2.77068142495902e-08f));
  p = hn::MulAdd(p, square, c(-2.10102402082508e-06f));
  p = hn::MulAdd(p, square, c(-5.69250639462346e-05f));
  p = hn::MulAdd(p, square, c(-7.34990630326855e-04f));
  p = hn::MulAdd(p, square, c(-2.95459980854025e-03f));
  p = hn::MulAdd(p, square, c(-1.60960333262415e-02f));
  V q = c(-1.45660718464996e-05f);
  q = hn::MulAdd(q, square, c(-2.13374055278905e-04f));
  q = hn::MulAdd(q, square, c(-1.68282697438203e-03f));
  q = hn::MulAdd(q, square, c(-7.37332916720468e-03f));
  q = hn::MulAdd(q, square, c(-1.42647390514189e-02f));
  const V inner = hn::Div(hn::Mul(x, p), q);
  return hn::IfThenElse(hn::Ge(hn::Abs(x), c(3.92f)), hn::CopySign(c(1.0f), x), inner);
}

/// x, at most `limit` from 0: beyond it every slope is 0 or 1 in float, and infinity would meet 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V within(D d, float limit, V x) {
  return hn::Min(hn::Set(d, limit), hn::Max(hn::Set(d, -limit), x));
}

/// s + x s (1 - s) rise for s = 1 / (1 + exp(-u)); exp(-u) must be finite.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_slope(D d, V u, V x, V rise) {
  const V e = hn::Exp(d, hn::Neg(u));
  const V s = hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), e));
  return hn::MulAdd(hn::Mul(hn::Mul(x, rise), s), hn::Mul(e, s), s);  // e s is 1 - s
}

struct Identity {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D, V x) {
    return x;
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V) {
    return hn::Set(d, 1.0f);
  }
};

struct Relu {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D d, V x) {
    return hn::Max(hn::Zero(d), x);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    return hn::IfThenZeroElse(hn::Le(x, hn::Zero(d)), hn::Set(d, 1.0f));
  }
};

struct Gelu {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D d, V x) {
    const V half = hn::Mul(hn::Set(d, 0.5f), x);
    return hn::MulAdd(half, erf(d, hn::Mul(x, hn::Set(d, 0.70710678f))), half);
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    // Φ(x) + x φ(x)
    x = within(d, 10.0f, x);
    const V half = hn::Set(d, 0.5f);
    const V distribution = hn::MulAdd(erf(d, hn::Mul(x, hn::Set(d, 0.70710678f))), half, half);
    const V exponent = hn::Mul(hn::Mul(x, x), hn::Neg(half));
    return hn::MulAdd(hn::Mul(x, hn::Set(d, 0.39894228f)), hn::Exp(d, exponent), distribution);
  }
};

struct GeluTanh {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D d, V x) {
    // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)), u = √(2/π) (x + 0.044715 x³)
    const V cubic =
        hn::MulAdd(hn::Set(d, 0.044715f * 1.5957691f), hn::Mul(x, x), hn::Set(d, 1.5957691f));
    return hn::Div(x, one_plus_exp_minus(d, hn::Mul(x, cubic)));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    x = within(d, 10.0f, x);
    const V c = hn::Set(d, 1.5957691f);
    const V square = hn::Mul(x, x);
    const V cubic = hn::MulAdd(hn::Set(d, 0.044715f * 1.5957691f), square, c);
    const V rise = hn::MulAdd(hn::Set(d, 3 * 0.044715f * 1.5957691f), square, c);
    return sigmoid_slope(d, hn::Mul(x, cubic), x, rise);
  }
};

struct Silu {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D d, V x) {
    return hn::Div(x, one_plus_exp_minus(d, x));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    x = within(d, 80.0f, x);
    return sigmoid_slope(d, x, x, hn::Set(d, 1.0f));
  }
};

struct Tanh {
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V apply(D d, V x) {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x));
  }
  template <class D, class V = hn::Vec<D>>
  static HWY_INLINE V slope(D d, V x) {
    const V t = apply(d, x);
    return hn::NegMulAdd(t, t, hn::Set(d, 1.0f));
  }
};

/// call() of a value of the type that computes `activation`.
template <class Call>
auto with_activation(Activation activation, const Call& call) {
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return call(Relu());
    case Activation::gelu:
      return call(Gelu());
    case Activation::gelu_tanh:
      return call(GeluTanh());
    case Activation::silu:
      return call(Silu());
    case Activation::tanh:
      return call(Tanh());
  }
  return call(Identity());
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
