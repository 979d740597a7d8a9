// How far attention in float may lie from attention in double, derived from sizes and values.
//
// u = 2^-24 is the unit roundoff, gamma_n = n u to first order (Higham, Accuracy and Stability of
// Numerical Algorithms, ch. 3: a sum of n products in any order errs by at most gamma_n of the sum
// of their absolute values). With A = max |scale| sum |q||k|, S = max |score|, W = max |bias|:
//   score:     e_s <= u ((D + 4) A + F softcap + 3 W + 2 S)
//   lse:       e_l <= e_s + u (M + F + 2 |lse|)          a sum of M weights, its log, its rounding
//   weight:    e_p <= e_s + e_l + u (4 S + F), relative  p = exp(s - lse); also if normalised late
//   output:    e_o <= e_p + u (M + F)                    relative to |gate| sum drop(p) |v|
//   dp:        u (Dv + F), relative to G = |gate| max_j drop' |dout| . |v[j]|; its mean: e_o more
//   ds:        e_d <= 2 (e_p + u (Dv + F)) + e_o         relative to p G
//   capped:    e_c <= F u + 2 e_s / softcap              1 - tanh^2 is 1-Lipschitz; |ds| <= 2 p G
//   gradients: e_g <= e_d + 2 e_c + 2 u (n + F)          relative to sum p G |k|, sum p G |q|, …
// n counts the terms of the longest sum: M for dq; the rows of all heads that share a key for dk
// and dv; for dgates and dtable, sums over rows of sums over keys, T + M. F = 16 covers exp, log,
// tanh (a few ulp each) and the handful of single operations around them.
#pragma once

#include "kernels/attention_testing.h"

namespace headwise::tests {

inline constexpr double kUnit = 0x1p-24;
inline constexpr double kFunction = 16;
/// Weights below the range of float may be flushed to 0.
inline constexpr double kFlushed = 1e-30;

struct Bounds {
  double score = 0, lse = 0, weight = 0, output = 0, gradient = 0;
  double largest_score = 0;
  Answers<double> absolute;  // the sums of absolute values the relative bounds multiply; lse unused

  explicit Bounds(const Attention& attention) : absolute(attention) {}
};

Bounds attention_bounds(const Attention& attention, View<const float, 3> dout);

}  // namespace headwise::tests
