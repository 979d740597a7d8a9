// Looks at the examples so far, and drops the ablations that have settled.
#include "observe/race.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>

#include "core/shuffle.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "observe/loss_table.h"

namespace headwise {
namespace {

constexpr uint32_t kOrder = 0x4ACE0001;
constexpr double kAlpha = 0.05;
constexpr int64_t kFirstShare = 32;   // the first look is at this part of the examples,
constexpr int64_t kFewestFirst = 32;  // at least so many
/// A head that seems replaceable goes on if it is more likely than this that all examples would
/// show it harmful.
constexpr double kTurns = 0.15;

/// The quantile of Student's t by its expansion in 1/n: good to 1e-3 from n = 20 on.
double student_quantile(double p, double freedom) {
  const double z = normal_quantile(p), z2 = z * z;
  return z + z * (z2 + 1) / (4 * freedom) + z * ((5 * z2 + 16) * z2 + 3) / (96 * freedom * freedom);
}

std::vector<int64_t> shuffled(int64_t n, uint64_t seed) {
  std::vector<int64_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  Random random(derived_seed(seed, 0, 0, kOrder));
  permute(order, random);
  return order;
}

/// After how many examples it is looked, the last time after all.
std::vector<int64_t> looks_of(int64_t examples) {
  std::vector<int64_t> looks;
  for (int64_t n = std::max(kFewestFirst, examples / kFirstShare); n < examples; n *= 2) {
    looks.push_back(n);
  }
  looks.push_back(examples);
  return looks;
}

class Race {
 public:
  Race(LossSweep& sweep, std::span<const Ablation> ablations, const RaceOptions& options)
      : sweep_(sweep),
        ablations_(ablations),
        options_(options),
        task_(sweep.scorer().set().task),
        tokens_(sweep.scorer().tokens()),
        order_(shuffled(std::ssize(tokens_), options.seed)),
        looks_(looks_of(std::ssize(tokens_))),
        values_(ablations.size(), std::vector<double>(tokens_.size())) {
    result_.base.resize(tokens_.size());
    if (task_ == LossTask::classify) result_.labels.resize(tokens_.size());
    result_.ablations.resize(ablations.size());
    active_.resize(ablations.size());
    std::iota(active_.begin(), active_.end(), 0);
  }

  RaceResult run() {
    int64_t begin = 0;
    for (const int64_t end : looks_) {
      advance(begin, end);
      begin = end;
      if (end < std::ssize(tokens_)) {
        std::erase_if(active_, [&](int64_t a) { return settles(a, end); });
      }
    }
    finish();
    return std::move(result_);
  }

 private:
  /// Runs what is active over the next examples. The model itself is run over all of them.
  void advance(int64_t begin, int64_t end) {
    std::vector<Ablation> active;
    for (const int64_t a : active_) active.push_back(ablations_[a]);
    std::vector<int64_t> examples(order_.begin() + begin, order_.begin() + end);
    std::ranges::sort(examples);
    const SweepValues got = sweep_.run(active, examples, [&](int64_t done, int64_t total) {
      if (!options_.progress) return;
      const double share = static_cast<double>(done) / static_cast<double>(total);
      options_.progress(begin + static_cast<int64_t>(share * static_cast<double>(end - begin)),
                        std::ssize(tokens_));
    });
    for (size_t i = 0; i < examples.size(); ++i) {
      result_.base[examples[i]] = got.base[i];
      if (!got.labels.empty()) result_.labels[examples[i]] = got.labels[i];
      for (size_t a = 0; a < active_.size(); ++a) {
        values_[active_[a]][examples[i]] = got.ablated[a][i];
      }
    }
  }

  /// Values of the first examples, in their random order.
  template <class T>
  std::vector<T> first(std::span<const T> values, int64_t n) const {
    std::vector<T> some;
    for (int64_t i = 0; i < n; ++i) some.push_back(values[order_[i]]);
    return some;
  }

  bool settles(int64_t a, int64_t n) {
    const double alpha = kAlpha / static_cast<double>(looks_.size());
    const auto tokens = first(tokens_, n);
    const auto base = first(std::span<const double>(result_.base), n);
    const auto values = first(std::span<const double>(values_[a]), n);
    const auto gold = gold_of(n);
    const LossStatistic statistic(task_, tokens, gold);
    if (!statistic.has_intervals()) return false;
    const double loss = statistic.loss(base);
    RatioEstimate estimate;
    if (task_ == LossTask::similarity) {
      const std::vector<std::vector<double>> row = {values};
      estimate.value = statistic.change(values, base);
      const std::optional<ConfidenceInterval> interval =
          statistic.intervals(row, base, options_.resamples, options_.seed, alpha)[0];
      if (!interval) return false;
      estimate.interval = *interval;
      const double width = estimate.interval.high - estimate.interval.low;
      estimate.deviation = width / (2 * normal_quantile(1 - alpha / 2)) * std::sqrt(n);
    } else {
      std::vector<double> d;
      for (int64_t i = 0; i < n; ++i) d.push_back(values[i] - base[i]);
      estimate = estimate_ratio(d, tokens, alpha);
    }
    const double tolerance = tolerance_of(task_, loss, options_.tolerance);
    const Standing now = standing(estimate.interval, tolerance, task_);
    if (now == Standing::undecided) return false;
    if (now == Standing::replaceable && may_turn_out_harmful(estimate, n)) return false;
    result_.ablations[a] = {.value = estimate.value, .n = n, .interval = estimate.interval};
    return true;
  }

  std::vector<float> gold_of(int64_t n) const {
    const std::vector<float>& all = sweep_.scorer().set().examples.all.scores;
    return all.empty() ? std::vector<float>() : first(std::span<const float>(all), n);
  }

  /// All N examples would show harm if their mean, which is around that of n, were below 0 by more
  /// than their interval.
  bool may_turn_out_harmful(const RatioEstimate& estimate, int64_t n) const {
    if (task_ == LossTask::fidelity) return false;
    const auto few = static_cast<double>(n), all = static_cast<double>(tokens_.size());
    const double reach = normal_quantile(1 - kAlpha / 2) / std::sqrt(all) +
                         normal_quantile(kTurns) * std::sqrt(1 / few - 1 / all);
    return estimate.value < -reach * estimate.deviation;
  }

  void finish() {
    const LossStatistic statistic(task_, tokens_, sweep_.scorer().set().examples.all.scores);
    std::vector<std::vector<double>> rows;
    for (const int64_t a : active_) rows.push_back(std::move(values_[a]));
    const std::vector<std::optional<ConfidenceInterval>> intervals =
        statistic.intervals(rows, result_.base, options_.resamples, options_.seed);
    for (size_t i = 0; i < active_.size(); ++i) {
      result_.ablations[active_[i]] = {.value = statistic.change(rows[i], result_.base),
                                       .n = std::ssize(tokens_),
                                       .interval = intervals[i]};
    }
  }

  LossSweep& sweep_;
  std::span<const Ablation> ablations_;
  const RaceOptions& options_;
  LossTask task_;
  std::span<const int64_t> tokens_;
  std::vector<int64_t> order_, looks_;
  std::vector<std::vector<double>> values_;
  std::vector<int64_t> active_;
  RaceResult result_;
};

}  // namespace

double normal_quantile(double p) {
  if (p <= 0) return -std::numeric_limits<double>::infinity();
  if (p >= 1) return std::numeric_limits<double>::infinity();
  // Newton's method, which converges from 0 in both directions since the density falls there.
  double x = 0;
  for (int round = 0; round < 100; ++round) {
    const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double step = std::clamp((p - below) / density, -1., 1.);
    x += step;
    if (std::abs(step) < 1e-14) break;
  }
  return x;
}

RatioEstimate estimate_ratio(std::span<const double> d, std::span<const int64_t> tokens,
                             double alpha) {
  const auto n = static_cast<double>(d.size());
  double sum = 0, count = 0;
  for (size_t x = 0; x < d.size(); ++x) {
    sum += d[x];
    count += static_cast<double>(tokens[x]);
  }
  RatioEstimate estimate{.value = sum / count};
  // What each example adds to the ratio, to first order.
  double squares = 0, cubes = 0;
  for (size_t x = 0; x < d.size(); ++x) {
    const double e = (d[x] - estimate.value * static_cast<double>(tokens[x])) / (count / n);
    squares += e * e;
    cubes += e * e * e;
  }
  const double variance = squares / (n - 1);
  estimate.deviation = std::sqrt(variance);
  const double error = estimate.deviation / std::sqrt(n);
  const double skewness = variance > 0 ? cubes / n / (variance * estimate.deviation) : 0;
  const double c = student_quantile(1 - alpha / 2, n - 1);
  const double shift = skewness * (2 * c * c + 1) / (6 * std::sqrt(n));
  estimate.interval = {estimate.value - error * std::max(0., c - shift),
                       estimate.value + error * std::max(0., c + shift)};
  return estimate;
}

RaceResult race(LossSweep& sweep, std::span<const Ablation> ablations, const RaceOptions& options) {
  return Race(sweep, ablations, options).run();
}

}  // namespace headwise
