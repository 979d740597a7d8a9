// Student's t, tests of signs, Holm's correction.
#include "experiment/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "headwise/core/error.h"
#include "observe/accuracy.h"

namespace headwise {
namespace {

constexpr double kNormal = 1.959963984540054;  // holds 95 % on both sides

/// The continued fraction of the incomplete beta function (Lentz's method).
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  double c = 1, d = 1 - (a + b) * x / (a + 1);
  d = 1 / (std::abs(d) < kTiny ? kTiny : d);
  double product = d;
  for (int m = 1; m < 1000; ++m) {
    for (const double step : {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                              -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))}) {
      d = 1 + step * d;
      d = 1 / (std::abs(d) < kTiny ? kTiny : d);
      c = 1 + step / c;
      if (std::abs(c) < kTiny) c = kTiny;
      product *= c * d;
    }
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return product;
}

/// I_x(a, b)
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a
                                   : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

/// P(T > t), exact also far out.
double student_tail(double t, double freedom) {
  const double tail = 0.5 * incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t));
  return t >= 0 ? tail : 1 - tail;
}

}  // namespace

double student_cdf(double t, double freedom) { return student_tail(-t, freedom); }

double student_quantile(double p, double freedom) {
  double low = -1, high = 1;
  while (student_cdf(low, freedom) > p) low *= 2;
  while (student_cdf(high, freedom) < p) high *= 2;
  for (int round = 0; round < 200 && high - low > 1e-12 * std::max(1., std::abs(low)); ++round) {
    const double middle = (low + high) / 2;
    (student_cdf(middle, freedom) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::optional<ConfidenceInterval> Estimate::interval() const {
  if (n < 2) return std::nullopt;
  const double reach = student_quantile(0.975, static_cast<double>(n - 1)) * error;
  return ConfidenceInterval{value - reach, value + reach};
}

double Estimate::lower_bound(double alpha) const {
  if (n < 2) return -std::numeric_limits<double>::infinity();
  return value - student_quantile(1 - alpha, static_cast<double>(n - 1)) * error;
}

double Estimate::upper_bound(double alpha) const {
  if (n < 2) return std::numeric_limits<double>::infinity();
  return value + student_quantile(1 - alpha, static_cast<double>(n - 1)) * error;
}

double Estimate::p_above(double threshold) const {
  if (n < 2) return 1;
  if (error == 0) return value > threshold ? 0 : 1;
  return student_tail((value - threshold) / error, static_cast<double>(n - 1));
}

double Estimate::p_below(double threshold) const {
  return Estimate{.value = -value, .error = error, .n = n}.p_above(-threshold);
}

double Estimate::p_not_zero() const { return std::min(1., 2 * std::min(p_above(0), p_below(0))); }

Estimate mean_of(std::span<const double> samples) {
  Estimate estimate{.n = std::ssize(samples)};
  if (samples.empty()) return estimate;
  const auto n = static_cast<double>(samples.size());
  estimate.value = std::accumulate(samples.begin(), samples.end(), 0.) / n;
  if (samples.size() < 2) return estimate;
  double squares = 0;
  for (const double sample : samples) {
    squares += (sample - estimate.value) * (sample - estimate.value);
  }
  estimate.error = std::sqrt(squares / (n - 1) / n);
  return estimate;
}

Estimate paired_difference(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) {
    throw Error({.what = "samples do not form pairs",
                 .got = std::to_string(a.size()) + " and " + std::to_string(b.size())});
  }
  std::vector<double> differences(a.size());
  std::ranges::transform(a, b, differences.begin(), std::minus());
  return mean_of(differences);
}

double binomial_tail(int64_t successes, int64_t n, double probability) {
  if (successes <= 0) return 1;
  if (successes > n) return 0;
  return incomplete_beta(static_cast<double>(successes), static_cast<double>(n - successes + 1),
                         probability);
}

double sign_test(std::span<const double> samples) {
  const int64_t above = std::ranges::count_if(samples, [](double x) { return x > 0; });
  const int64_t below = std::ranges::count_if(samples, [](double x) { return x < 0; });
  return binomial_tail(above, above + below, 0.5);
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return p[i]; });
  std::vector<double> corrected(p.size());
  double least = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    least = std::max(least, std::min(1., p[order[rank]] * static_cast<double>(p.size() - rank)));
    corrected[order[rank]] = least;
  }
  return corrected;
}

std::vector<double> holm(std::span<const ClaimTest> family) {
  std::vector<double> p;
  for (const ClaimTest& test : family) p.push_back(test.p);
  return holm(p);
}

ConfidenceInterval share_interval(int64_t count, int64_t n) {
  return wilson_interval(n == 0 ? 0 : static_cast<double>(count) / static_cast<double>(n), n,
                         kNormal);
}

}  // namespace headwise
