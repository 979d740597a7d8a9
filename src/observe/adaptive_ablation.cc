// Adds examples in rounds and stops the ablations whose standing is decided.
#include "observe/adaptive_ablation.h"

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
constexpr double kSpendingGrowth = 2;      // what a look may miss, over what the one before it may
constexpr int64_t kFewestForInterval = 5;  // below, the quantiles of Student's t are too far off
constexpr int64_t kFirstShare = 32;        // the first look is at this part of the examples,
constexpr int64_t kFewestFirst = 16;       // at least so many,
constexpr int64_t kFewestResampled = 32;   // or so many where intervals are of resamples
/// A head that seems replaceable goes on if it is more likely than this that all examples would
/// show it harmful.
constexpr double kTurns = 0.15;

/// The quantile of Student's t by its expansion in 1/n: good to 1e-3 from n = 20 on, to 2 % at 5.
double student_quantile(double p, double freedom) {
  const double z = normal_quantile(p), z2 = z * z;
  return z + z * (z2 + 1) / (4 * freedom) + z * ((5 * z2 + 16) * z2 + 3) / (96 * freedom * freedom);
}

class AdaptiveAblation {
 public:
  AdaptiveAblation(LossSource& source, std::span<const Ablation> ablations,
                   const AdaptiveOptions& options)
      : source_(source),
        ablations_(ablations),
        options_(options),
        task_(source.task()),
        of_set_(source.size()),
        looks_(interim_looks(task_, of_set_, options.more == nullptr ? 0 : options.more->size())),
        order_(order_of_examples(of_set_, options.seed)) {
    append(source);
    if (options.more != nullptr) {
      append(*options.more);
      for (const int64_t x : order_of_examples(options.more->size(), options.seed)) {
        order_.push_back(of_set_ + x);
      }
    }
    base_.resize(tokens_.size());
    values_.assign(ablations.size(), std::vector<double>(tokens_.size()));
    result_.ablations.resize(ablations.size());
    active_.resize(ablations.size());
    std::iota(active_.begin(), active_.end(), 0);
  }

  AdaptiveResult run() {
    run_base();
    int64_t begin = 0;
    for (const Look& look : looks_) {
      if (active_.empty()) break;
      const std::vector<int64_t> examples = next(begin, look.examples);
      const double cost = source_of(begin).passes(active(), examples) * share_of(begin);
      if (begin > 0 && result_.passes + cost > options_.passes) break;
      result_.passes += cost;
      advance(begin, look.examples, examples);
      begin = look.examples;
      std::erase_if(active_, [&](int64_t a) { return is_decided(a, look); });
    }
    return std::move(result_);
  }

 private:
  /// The model itself, over the whole set: its loss says what is tolerated.
  void run_base() {
    std::vector<int64_t> all(of_set_);
    std::iota(all.begin(), all.end(), 0);
    result_.passes = source_.passes({}, all);
    SweepValues values = source_.run({}, all, {});
    const LossStatistic statistic(task_, source_.tokens(), source_.gold());
    tolerance_ = tolerance_of(task_, statistic.loss(values.base), options_.tolerance);
    result_.base = std::move(values.base);
    result_.labels = std::move(values.labels);
  }

  void append(const LossSource& source) {
    tokens_.insert(tokens_.end(), source.tokens().begin(), source.tokens().end());
    gold_.insert(gold_.end(), source.gold().begin(), source.gold().end());
  }

  LossSource& source_of(int64_t begin) const { return begin < of_set_ ? source_ : *options_.more; }

  /// Passes over the other set in passes over this one.
  double share_of(int64_t begin) const {
    return begin < of_set_ ? 1 : options_.more->work_of_pass() / source_.work_of_pass();
  }

  std::vector<Ablation> active() const {
    std::vector<Ablation> active;
    for (const int64_t a : active_) active.push_back(ablations_[a]);
    return active;
  }

  /// The examples of a look by their numbers in their set, ascending.
  std::vector<int64_t> next(int64_t begin, int64_t end) const {
    std::vector<int64_t> examples(order_.begin() + begin, order_.begin() + end);
    if (begin >= of_set_) {
      for (int64_t& x : examples) x -= of_set_;
    }
    std::ranges::sort(examples);
    return examples;
  }

  /// Runs what is active over the next examples.
  void advance(int64_t begin, int64_t end, const std::vector<int64_t>& examples) {
    const SweepValues got =
        source_of(begin).run(active(), examples, [&](int64_t done, int64_t total) {
          if (!options_.progress) return;
          const double share = static_cast<double>(done) / static_cast<double>(total);
          options_.progress(begin + static_cast<int64_t>(share * static_cast<double>(end - begin)),
                            std::ssize(tokens_));
        });
    const int64_t first = begin < of_set_ ? 0 : of_set_;
    for (size_t i = 0; i < examples.size(); ++i) {
      const int64_t x = first + examples[i];
      base_[x] = got.base[i];
      for (size_t a = 0; a < active_.size(); ++a) values_[active_[a]][x] = got.ablated[a][i];
    }
  }

  /// Values of the first examples, in their random order.
  template <class T>
  std::vector<T> first(std::span<const T> values, int64_t n) const {
    std::vector<T> some;
    for (int64_t i = 0; i < n; ++i) some.push_back(values[order_[i]]);
    return some;
  }

  /// Writes the interval of a look down; true if it decides the standing.
  bool is_decided(int64_t a, const Look& look) {
    const int64_t n = look.examples;
    const auto tokens = first(std::span<const int64_t>(tokens_), n);
    const auto base = first(std::span<const double>(base_), n);
    const auto values = first(std::span<const double>(values_[a]), n);
    const auto gold = gold_of(n);
    const LossStatistic statistic(task_, tokens, gold);
    Measure& measure = result_.ablations[a];
    measure = {.value = statistic.change(values, base), .n = n};
    if (!statistic.has_intervals() || n < kFewestForInterval) return false;
    RatioEstimate estimate;
    if (task_ == LossTask::similarity) {
      const std::vector<std::vector<double>> row = {values};
      const std::optional<ConfidenceInterval> interval =
          statistic.intervals(row, base, options_.resamples, options_.seed, look.alpha)[0];
      if (!interval) return false;
      estimate = {.value = measure.value, .interval = *interval};
      const double width = estimate.interval.high - estimate.interval.low;
      estimate.deviation = width / (2 * normal_quantile(1 - look.alpha / 2)) * std::sqrt(n);
    } else {
      std::vector<double> d;
      for (int64_t i = 0; i < n; ++i) d.push_back(values[i] - base[i]);
      estimate = estimate_ratio(d, tokens, look.alpha);
    }
    measure.interval = estimate.interval;
    const Standing now = standing(estimate.interval, tolerance_, task_);
    if (now == Standing::undecided) return false;
    return now != Standing::replaceable || !may_turn_out_harmful(estimate, n);
  }

  std::vector<float> gold_of(int64_t n) const {
    return gold_.empty() ? std::vector<float>() : first(std::span<const float>(gold_), n);
  }

  /// All N examples would show harm if their mean, which is around that of n, were below 0 by more
  /// than their interval.
  bool may_turn_out_harmful(const RatioEstimate& estimate, int64_t n) const {
    if (task_ == LossTask::fidelity) return false;
    const auto few = static_cast<double>(n), all = static_cast<double>(of_set_);
    if (few >= all) return false;
    const double reach = normal_quantile(1 - looks_.back().alpha / 2) / std::sqrt(all) +
                         normal_quantile(kTurns) * std::sqrt(1 / few - 1 / all);
    return estimate.value < -reach * estimate.deviation;
  }

  LossSource& source_;
  std::span<const Ablation> ablations_;
  const AdaptiveOptions& options_;
  LossTask task_;
  int64_t of_set_;
  std::vector<Look> looks_;
  std::vector<int64_t> order_;   // of the examples of the set, then of those of the other one
  std::vector<int64_t> tokens_;  // likewise, by number
  std::vector<float> gold_;      // likewise, similarity
  std::vector<double> base_;
  std::vector<std::vector<double>> values_;
  std::vector<int64_t> active_;
  double tolerance_ = 0;
  AdaptiveResult result_;
};

}  // namespace

std::vector<int64_t> order_of_examples(int64_t examples, uint64_t seed) {
  std::vector<int64_t> order(examples);
  std::iota(order.begin(), order.end(), 0);
  Random random(derived_seed(seed, 0, 0, kOrder));
  permute(order, random);
  return order;
}

std::vector<Look> interim_looks(LossTask task, int64_t examples, int64_t more) {
  std::vector<Look> looks;
  const int64_t fewest = task == LossTask::similarity ? kFewestResampled : kFewestFirst;
  for (int64_t n = std::max(fewest, examples / kFirstShare); n < examples; n *= 2) {
    looks.push_back({.examples = n});
  }
  looks.push_back({.examples = examples});
  for (int64_t n = 2 * examples; more > 0 && n < examples + more; n *= 2) {
    looks.push_back({.examples = n});
  }
  if (more > 0) looks.push_back({.examples = examples + more});
  double all = 0, part = 1;
  for (Look& look : looks) {
    look.alpha = part;
    all += part;
    part *= kSpendingGrowth;
  }
  for (Look& look : looks) look.alpha *= kAlpha / all;
  return looks;
}

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
  // The wider end of both intervals: few examples show the tail on the far side badly.
  estimate.interval = {estimate.value - error * std::max(c, c - shift),
                       estimate.value + error * std::max(c, c + shift)};
  return estimate;
}

AdaptiveResult ablate_adaptively(LossSource& source, std::span<const Ablation> ablations,
                                 const AdaptiveOptions& options) {
  return AdaptiveAblation(source, ablations, options).run();
}

}  // namespace headwise
