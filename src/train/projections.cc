// Copies and measures the rows of single heads.
#include "train/projections.h"

#include <algorithm>
#include <cmath>

#include "headwise/kernels/sum_of_squares.h"

namespace headwise {

void make_heads_equal(const MultiHeadAttentionWeights& w) {
  const MultiHeadAttentionShape& s = w.shape();
  const auto repeat_rows = [](View<float, 2> rows, int64_t heads, int64_t width) {
    for (int64_t h = 1; h < heads; ++h) {
      std::copy_n(rows.data(), width * rows.extent(1), &rows(h * width, 0));
    }
  };
  repeat_rows(w.query(), s.learned(), s.D);
  repeat_rows(w.key(), s.key_heads, s.D);
  repeat_rows(w.value(), s.K, s.Dv);
  const View<float, 2> output = w.output();
  for (int64_t c = 0; c < s.C; ++c) {
    for (int64_t i = s.Dv; i < s.H * s.Dv; ++i) output(c, i) = output(c, i % s.Dv);
  }
}

void head_gradient_norms(const MultiHeadAttentionWeights& gradients, std::span<double> norms) {
  const MultiHeadAttentionShape& s = gradients.shape();
  const auto squares = [](View<float, 2> rows, int64_t head, int64_t width) {
    return sum_of_squares({&rows(head * width, 0), static_cast<size_t>(width * rows.extent(1))});
  };
  for (int64_t h = 0; h < s.H; ++h) {
    const int64_t kv = s.kv_of(h);
    double sum = squares(gradients.value(), kv, s.Dv);
    if (h < s.learned()) {
      sum += squares(gradients.query(), h, s.D) + squares(gradients.key(), kv, s.D);
    }
    for (int64_t c = 0; c < s.C; ++c) {
      sum += sum_of_squares({&gradients.output()(c, h * s.Dv), static_cast<size_t>(s.Dv)});
    }
    norms[h] = std::sqrt(sum);
  }
}

}  // namespace headwise
