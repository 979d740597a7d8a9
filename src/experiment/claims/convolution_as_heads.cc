// Whether K² constructed heads are a K × K convolution, to rounding.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "headwise/construct/convolution.h"
#include "headwise/core/random.h"

namespace headwise {
namespace {

using nlohmann::json;

// Between these, the error is that of the neighbours at distance 1.
constexpr double kSoftest = 2, kSharpest = 12;
constexpr double kSteepEnough = -0.9;

struct ConvolutionTrial {
  int64_t size, inputs, outputs;
  uint64_t seed;

  std::string name() const {
    return fmt::format("K={} channels={}x{} seed={}", size, inputs, outputs, seed);
  }
};

std::vector<float> normal_values(int64_t count, Random& random) {
  std::vector<float> values(count);
  for (float& value : values) value = random.normal();
  return values;
}

std::vector<float> absolute(std::vector<float> values) {
  for (float& value : values) value = std::abs(value);
  return values;
}

/// |got - expected| / |expected|
double relative_error(const std::vector<float>& got, const std::vector<double>& expected) {
  double error = 0, all = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    all += expected[i] * expected[i];
  }
  return std::sqrt(error / all);
}

/// What the best matrix of this rank leaves.
double rank_bound(const std::vector<double>& spectrum, int64_t rank) {
  double all = 0, left = 0;
  for (size_t i = 0; i < spectrum.size(); ++i) {
    all += spectrum[i] * spectrum[i];
    if (static_cast<int64_t>(i) >= rank) left += spectrum[i] * spectrum[i];
  }
  return std::sqrt(left / all);
}

json run_convolution(const ConvolutionTrial& trial, const json& settings, TrialContext& context) {
  Random random(trial.seed + context.seed(), static_cast<uint64_t>(trial.size));
  const ImageShape shape{settings.at("image").at(0), settings.at("image").at(1)};
  const int64_t K2 = trial.size * trial.size;
  const Convolution c{.size = trial.size,
                      .inputs = trial.inputs,
                      .outputs = trial.outputs,
                      .weights = normal_values(K2 * trial.outputs * trial.inputs, random)};
  const std::vector<float> image = normal_values(shape.height * shape.width * trial.inputs, random);
  const std::vector<double> expected = convolve(c, image, shape);
  json result = {{"outputs", expected.size()}};
  std::vector<float> got;
  for (const float sharpness : settings.at("sharpness")) {
    got = ConvolutionLayer(c, sharpness, K2).forward(image, shape);
    result["soft"].push_back({sharpness, relative_error(got, expected)});
  }
  // Of the sharpest.
  Convolution sizes = c;
  sizes.weights = absolute(c.weights);
  const std::vector<double> bound = convolve(sizes, absolute(image), shape);
  double largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double rounding = static_cast<double>(K2 * trial.inputs + 1) * 0x1p-24 * bound[i];
    largest = std::max(largest, std::abs(got[i] - expected[i]) / rounding);
  }
  result["error_over_rounding"] = largest;
  const std::vector<double> spectrum = convolution_spectrum(c);
  result["rank"] = std::ranges::count_if(
      spectrum, [&](double value) { return value > 1e-9 * spectrum.front(); });
  for (const int64_t heads : {int64_t{1}, K2 / 2, K2 - 1}) {
    if (heads < 1 || heads >= K2) continue;
    const float sharpness = settings.at("sharpness").back();
    const std::vector<float> fewer = ConvolutionLayer(c, sharpness, heads).forward(image, shape);
    result["fewer"].push_back({{"heads", heads},
                               {"error", relative_error(fewer, expected)},
                               {"best_of_rank", rank_bound(spectrum, heads)}});
  }
  return result;
}

std::vector<ConvolutionTrial> convolution_trials(const json& settings) {
  std::vector<ConvolutionTrial> all;
  for (const int64_t size : settings.at("sizes")) {
    for (const json& channels : settings.at("channels")) {
      for (const uint64_t seed : settings.at("seeds")) {
        all.push_back({size, channels.at(0), channels.at(1), seed});
      }
    }
  }
  return all;
}

std::vector<ExperimentTrial> trials(const json& settings) {
  std::vector<ExperimentTrial> trials;
  for (const ConvolutionTrial& trial : convolution_trials(settings)) {
    trials.push_back({.name = trial.name(), .run = [=](TrialContext& context) {
                        return run_convolution(trial, settings, context);
                      }});
  }
  return trials;
}

/// Of ln(error) over sharpness, by least squares.
double decay(const json& soft) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const json& point : soft) {
    const double at = point.at(0), value = std::log(point.at(1).get<double>());
    if (at < kSoftest || at > kSharpest) continue;
    n += 1;
    x += at;
    y += value;
    xx += at * at;
    xy += at * value;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

Finding judge(const json& settings, const TrialResults& results) {
  Finding finding{.figure_name = "largest error of an output, in units of the rounding bound"};
  std::map<int64_t, bool> equal;                     // by size
  std::map<int64_t, std::vector<double>> decays;     // likewise
  std::map<uint64_t, double> largest;                // by seed
  std::map<int64_t, std::map<double, double>> soft;  // by size and sharpness, the mean error
  double least = INFINITY, least_bound = INFINITY;   // with one head less
  for (const ConvolutionTrial& trial : convolution_trials(settings)) {
    const json& result = results.at(trial.name());
    const double error = result.at("error_over_rounding");
    const bool fits = error <= 1;
    equal[trial.size] = (!equal.contains(trial.size) || equal[trial.size]) && fits;
    largest[trial.seed] = std::max(largest[trial.seed], error);
    if (trial.size == 1) continue;
    decays[trial.size].push_back(decay(result.at("soft")));
    for (const json& point : result.at("soft")) {
      const double share =
          1. / static_cast<double>(settings.at("channels").size() * settings.at("seeds").size());
      soft[trial.size][point.at(0)] += point.at(1).get<double>() * share;
    }
    const json& fewer = result.at("fewer").back();
    least = std::min(least, fewer.at("error").get<double>());
    if (result.at("rank") == trial.size * trial.size) {
      least_bound = std::min(least_bound, fewer.at("best_of_rank").get<double>());
    }
  }
  std::vector<double> by_seed;
  for (const auto& [seed, error] : largest) by_seed.push_back(error);
  const Estimate figure = mean_of(by_seed);
  finding.figure = figure.value;
  finding.interval = figure.interval();
  finding.n = figure.n;
  for (const auto& [size, slopes] : decays) {
    const Estimate slope = mean_of(slopes);
    finding.family.push_back({.name = fmt::format("K={}: ln(error) per unit of sharpness", size),
                              .figure = slope.value,
                              .interval = slope.interval(),
                              .n = slope.n,
                              .p = slope.p_below(kSteepEnough)});
  }
  const auto holds = [&](const auto& entry) { return entry.first > 1 && entry.second; };
  const bool all = std::ranges::all_of(equal, [](const auto& entry) { return entry.second; });
  if (all) {
    finding.outcome = ClaimOutcome::confirmed;
  } else if (std::ranges::any_of(equal, holds)) {
    finding.outcome = ClaimOutcome::depends;
    finding.depends_on = "the size of the kernel";
  } else {
    finding.outcome = ClaimOutcome::refuted;
  }
  finding.why = fmt::format(
      "The largest error of any output is {:.2g} times the bound of rounding. With one head less "
      "the relative error is {:.2g} or more{}. It needs positions beside the content, scores of "
      "their squares, a frame of zeros, and sharp scores: the error falls with e^-sharpness.",
      *std::ranges::max_element(by_seed), least,
      std::isfinite(least_bound)
          ? fmt::format(", and of no K² - 1 heads below {:.2g} where the kernel has rank K²",
                        least_bound)
          : "");
  Plot& plot = finding.plot;
  plot = {.title = "K² heads and a K × K convolution",
          .x_label = "sharpness",
          .y_label = "log10 of the relative error",
          .log_x = true};
  for (const auto& [size, points] : soft) {
    PlotSeries& series =
        plot.series.emplace_back(PlotSeries{.name = fmt::format("K = {}", size), .line = true});
    for (const auto& [sharpness, error] : points) {
      series.points.push_back({.x = sharpness, .y = std::log10(error)});
    }
  }
  return finding;
}

}  // namespace

ExperimentKind convolution_as_heads() {
  return {.name = "convolution-as-heads", .trials = trials, .judge = judge};
}

}  // namespace headwise
