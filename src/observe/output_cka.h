// Centred linear CKA between what two heads add to the residual stream.
//
// The contributions of a head are X = Z W_O. With S_ab = Z_a' Z_b of centred Z, and G = W_O W_O',
//   ‖X_a' X_b‖² = ‖W_O,a' S_ab W_O,b‖² = Σ (G_a S_ab) (S_ab G_b)      (elementwise)
//   cka = ‖X_a' X_b‖² / (‖X_a' X_a‖ ‖X_b' X_b‖)
// so that only Z' Z and the sums of Z are kept.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/linear_algebra.h"
#include "headwise/model/multi_head_attention.h"

namespace headwise {

/// G of a head, [Dv, Dv].
inline DoubleMatrix output_gram(const MultiHeadAttentionWeights& weights, int64_t head) {
  const int64_t Dv = weights.shape().Dv;
  const DoubleMatrix output(transposed(weights.output()).rows(head * Dv, (head + 1) * Dv));
  return product_with_transposed(output, output);
}

/// ‖X_a' X_b‖².
inline double shared_squares(const DoubleMatrix& gram_a, const DoubleMatrix& s,
                             const DoubleMatrix& gram_b) {
  return inner_product(product(gram_a, s), product(s, gram_b));
}

/// Of ‖X_a' X_b‖², ‖X_a' X_a‖² and ‖X_b' X_b‖². A head with a constant output is like no other, and
/// not like itself: 0 / 0.
inline double output_cka(double shared, double own_a, double own_b) {
  return shared / std::sqrt(own_a) / std::sqrt(own_b);
}

}  // namespace headwise
