// Statistics of experiments: means with intervals, tests, and the correction for many of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/experiment/experiment.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// P(T < t), T with Student's distribution of so many degrees of freedom.
double student_cdf(double t, double freedom);
/// t with P(T < t) = p.
double student_quantile(double p, double freedom);

/// A number that was estimated from n independent samples: seeds, examples, heads.
struct Estimate {
  double value = 0;
  double error = 0;  // standard error
  int64_t n = 0;

  /// 95 %, Student's t; none of fewer than two samples.
  std::optional<ConfidenceInterval> interval() const;
  /// The one-sided bounds that miss with probability alpha.
  double lower_bound(double alpha) const;
  double upper_bound(double alpha) const;
  /// p of the one-sided test that the true value is not above, or not below, a threshold. 1 of
  /// fewer than two samples.
  double p_above(double threshold) const;
  double p_below(double threshold) const;
  /// Two-sided, that it is not 0.
  double p_not_zero() const;

  /// In another unit: a share of `scale`.
  Estimate over(double scale) const { return {value / scale, error / scale, n}; }
};

/// The mean of samples.
Estimate mean_of(std::span<const double> samples);
/// The mean of a[i] - b[i]: both are of the same seed or example.
Estimate paired_difference(std::span<const double> a, std::span<const double> b);

/// p of the one-sided sign test that a sample is not more often above 0 than below; those that are
/// 0 count for neither.
double sign_test(std::span<const double> samples);
/// P(X >= successes), X binomial.
double binomial_tail(int64_t successes, int64_t n, double probability);

/// Corrected p values in the order of the given ones (Holm 1979).
std::vector<double> holm(std::span<const double> p);

/// Those of a family of tests.
std::vector<double> holm(std::span<const ClaimTest> family);

/// Wilson's 95 % interval of a share.
ConfidenceInterval share_interval(int64_t count, int64_t n);

}  // namespace headwise
