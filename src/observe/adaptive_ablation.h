// Ablations that get more examples only while these can change their standing.
//
// Examples come in random order. After 16, 32, … of them the ablations whose interval decides their
// standing stop. The 5 % that an interval may miss is spent over all looks, each getting twice as
// much as the one before it, so that the intervals of all looks together hold with 95 %, whenever
// an ablation stops (alpha spending with a union bound). An interval has the wider ends of
// Student's t and of Johnson's correction of it for skewed differences (1978).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "headwise/observe/importance.h"
#include "observe/loss_sweep.h"

namespace headwise {

struct AdaptiveOptions {
  double tolerance = 0.005;  // see tolerance_of
  int64_t resamples = 1000;
  uint64_t seed = 0;

  /// Work that may be spent, see LossSource::passes. The first look is always reached; a later one
  /// only if there is enough left for all ablations that are undecided.
  double passes = std::numeric_limits<double>::infinity();

  /// Examples of another set with the same task, for what all examples of the set leave undecided.
  LossSource* more = nullptr;

  LossSource::Progress progress{};
};

struct AdaptiveResult {
  std::vector<double> base{};        // [examples of the set] of the model itself
  std::vector<int32_t> labels{};     // likewise, classify
  std::vector<Measure> ablations{};  // n: the examples that it got
  double passes = 0;                 // work that was spent
};

/// The order in which the examples of a set are used.
std::vector<int64_t> order_of_examples(int64_t examples, uint64_t seed);

AdaptiveResult ablate_adaptively(LossSource& source, std::span<const Ablation> ablations,
                                 const AdaptiveOptions& options);

/// When intervals are looked at, and how often each may miss.
struct Look {
  int64_t examples = 0;
  double alpha = 0;
};

/// Looks at `examples` of a set, and at `more` after these. The alphas sum up to 0.05.
std::vector<Look> interim_looks(LossTask task, int64_t examples, int64_t more = 0);

/// x with P(Z < x) = p, Z standard normal.
double normal_quantile(double p);

/// The mean of differences per token, and the interval that holds it with probability 1 - alpha.
/// d and tokens are of the same examples.
struct RatioEstimate {
  double value = 0, deviation = 0;  // of one example
  ConfidenceInterval interval{};
};
RatioEstimate estimate_ratio(std::span<const double> d, std::span<const int64_t> tokens,
                             double alpha);

}  // namespace headwise
