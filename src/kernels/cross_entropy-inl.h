// Cross entropy of rows of logits and its gradient, on SIMD vectors. Compiled once per SIMD target.
#if defined(HEADWISE_KERNELS_CROSS_ENTROPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_CROSS_ENTROPY_INL_H_
#undef HEADWISE_KERNELS_CROSS_ENTROPY_INL_H_
#else
#define HEADWISE_KERNELS_CROSS_ENTROPY_INL_H_
#endif

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "headwise/core/view.h"
#include "hwy/highway.h"
#include "kernels/cross_entropy_row.h"
#include "kernels/exp-inl.h"
#include "kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// d loss / d logit = softmax - smoothing / V, less 1 - smoothing for the target.
RowLoss score_row(const RowScoring& scoring, float* row, int64_t columns, int32_t target) {
  const RowTag d;
  const auto n = static_cast<double>(columns);
  const double smoothing = scoring.label_smoothing;
  const float most = max_row(row, columns), chosen = row[target];
  const bool correct = chosen == most && std::find(row, row + target, most) == row + target;
  const double total =
      smoothing == 0 ? 0 : sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
        return load_n(row + c, count);
      });
  const RowVec shift = hn::Set(d, most), log2_e = hn::Set(d, std::numbers::log2e_v<float>);
  const double sum = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
    const RowVec below = hn::Mul(hn::Sub(load_n(row + c, count), shift), log2_e);
    const RowVec e = keep_n(exp2_nonpositive(below), count);
    if (scoring.gradient) store_n(e, row + c, count);
    return e;
  });
  if (scoring.gradient) {
    const RowVec factor = hn::Set(d, static_cast<float>(scoring.scale / sum));
    const RowVec shared = hn::Set(d, static_cast<float>(scoring.scale * smoothing / n));
    for_vectors(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
      store_n(hn::MulSub(load_n(row + c, count), factor, shared), row + c, count);
    });
    row[target] -= static_cast<float>(scoring.scale * (1 - smoothing));
  }
  const double log_sum = most + std::log(sum);
  const double nll = log_sum - chosen;
  return {smoothing == 0 ? nll : (1 - smoothing) * nll + smoothing * (log_sum - total / n), nll,
          correct};
}

/// Goes on with more logits of each row.
void add_logits(View<const float, 2> logits, RunningSum* rows) {
  const RowTag d;
  const int64_t columns = logits.extent(1);
  for (int64_t t = 0; t < logits.extent(0); ++t) {
    const float* const row = &logits(t, 0);
    const float most = std::max(max_row(row, columns), rows[t].most);
    if (most == -std::numeric_limits<float>::infinity()) continue;
    const RowVec shift = hn::Set(d, most), log2_e = hn::Set(d, std::numbers::log2e_v<float>);
    const double sum = sum_row(columns, [&](int64_t c, int64_t count) HEADWISE_LAMBDA {
      const RowVec below = hn::Mul(hn::Sub(load_n(row + c, count), shift), log2_e);
      return keep_n(exp2_nonpositive(below), count);
    });
    rows[t].sum = rows[t].sum * std::exp(double{rows[t].most} - double{most}) + sum;
    rows[t].most = most;
  }
}

void score_rows(const RowScoring& scoring, View<float, 2> logits, const int32_t* targets,
                RowLoss* losses) {
  for (int64_t t = 0; t < logits.extent(0); ++t) {
    losses[t] = score_row(scoring, &logits(t, 0), logits.extent(1), targets[t]);
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
