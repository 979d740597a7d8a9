// Ablations that go through examples only as long as these can still change what is said of them.
//
// Examples come in random order, and are looked at after 1/32, 1/16, … of them. The interval of an
// early look is wider than the usual one (Bonferroni over all looks), and its ends allow for the
// skewness of differences (Johnson 1978), which few examples show badly. The look at all examples
// has the usual one: whoever gets that far has the standing of an ablation without a race.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headwise/observe/importance.h"
#include "observe/loss_sweep.h"

namespace headwise {

struct RaceOptions {
  double tolerance = 0.005;  // see tolerance_of
  int64_t resamples = 1000;
  uint64_t seed = 0;
  LossSweep::Progress progress{};
};

struct RaceResult {
  std::vector<double> base{};        // [examples of the set] of the model itself
  std::vector<int32_t> labels{};     // likewise, classify
  std::vector<Measure> ablations{};  // n: the examples that it got
};

RaceResult race(LossSweep& sweep, std::span<const Ablation> ablations, const RaceOptions& options);

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
