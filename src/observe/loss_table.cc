// Losses of sets, Spearman correlation, the bootstrap.
#include "observe/loss_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "core/nan.h"
#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"

namespace headwise {
namespace {

constexpr uint32_t kResample = 0xB0075;
constexpr int64_t kValuesAtOnce =
    512;  // of values, so that what is kept of their changes is bounded

/// From the smallest; NaN comes last.
std::vector<int32_t> order_of(std::span<const double> values) {
  std::vector<int32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [&](int32_t i) { return std::pair(std::isnan(values[i]), values[i]); });
  return order;
}

/// Ranks of values that come `counts` times each, from 0; of no use where that is 0. NaN has none,
/// and makes a correlation NaN.
void rank(std::span<const double> values, std::span<const int32_t> order,
          std::span<const uint32_t> counts, std::span<double> ranks) {
  double before = 0;
  for (size_t begin = 0, end; begin < order.size(); begin = end) {
    double equal = counts[order[begin]];
    for (end = begin + 1; end < order.size() && values[order[end]] == values[order[begin]]; ++end) {
      equal += counts[order[end]];
    }
    const double mean = std::isnan(values[order[begin]]) ? kNaN : before + (equal - 1) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = mean;
    before += equal;
  }
}

double correlation(std::span<const double> a, std::span<const double> b,
                   std::span<const uint32_t> counts) {
  double n = 0, sum_a = 0, sum_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    n += counts[i];
    sum_a += counts[i] * a[i];
    sum_b += counts[i] * b[i];
  }
  double aa = 0, bb = 0, ab = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double da = a[i] - sum_a / n, db = b[i] - sum_b / n;
    aa += counts[i] * da * da;
    bb += counts[i] * db * db;
    ab += counts[i] * da * db;
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : kNaN;
}

/// The interval of 1 - alpha of what was seen; none of nothing.
std::optional<ConfidenceInterval> holding(std::vector<double> seen, double alpha) {
  std::erase_if(seen, [](double change) { return std::isnan(change); });
  if (seen.empty()) return std::nullopt;
  std::ranges::sort(seen);
  return ConfidenceInterval{quantile(seen, alpha / 2), quantile(seen, 1 - alpha / 2)};
}

}  // namespace

double spearman(std::span<const double> a, std::span<const double> b,
                std::span<const uint32_t> counts) {
  std::vector<double> ranks_a(a.size()), ranks_b(b.size());
  rank(a, order_of(a), counts, ranks_a);
  rank(b, order_of(b), counts, ranks_b);
  return correlation(ranks_a, ranks_b, counts);
}

void check_loss(LossTask task, double loss) {
  if (std::isfinite(loss)) return;
  throw Error({.what = "the loss is no number",
               .where = std::string(to_string(task)),
               .got = fmt::format("{}", loss),
               .expected = "data that have one",
               .hint = task == LossTask::similarity
                           ? "give pairs whose scores differ, and whose cosines do"
                           : "see whether the model's weights are finite"});
}

double quantile(std::span<const double> sorted, double p) {
  if (sorted.empty()) return kNaN;
  const double at = p * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(at);
  if (below + 1 >= sorted.size()) return sorted.back();
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[below + 1] - sorted[below]);
}

LossStatistic::LossStatistic(LossTask task, std::span<const int64_t> tokens,
                             std::span<const float> gold)
    : task_(task), tokens_(tokens), gold_(gold.begin(), gold.end()), gold_order_(order_of(gold_)) {}

double LossStatistic::loss(std::span<const double> values, std::span<const uint32_t> counts) const {
  if (task_ == LossTask::similarity) return 1 - spearman(values, gold_, counts);
  double sum = 0, tokens = 0;
  for (size_t x = 0; x < values.size(); ++x) {
    sum += counts[x] * values[x];
    tokens += static_cast<double>(counts[x]) * static_cast<double>(tokens_[x]);
  }
  return tokens > 0 ? sum / tokens : kNaN;
}

double LossStatistic::loss(std::span<const double> values) const {
  return loss(values, std::vector<uint32_t>(values.size(), 1));
}

struct LossStatistic::Row {
  std::span<const double> values;
  std::vector<int32_t> order;  // from the smallest; similarity only
};

LossStatistic::Row LossStatistic::row(std::span<const double> values) const {
  return {values, task_ == LossTask::similarity ? order_of(values) : std::vector<int32_t>()};
}

double LossStatistic::change(std::span<const double> values, std::span<const double> base) const {
  double change = 0;
  const Row of_values = row(values);
  resample({&of_values, 1}, row(base), std::vector<uint32_t>(values.size(), 1), {&change, 1});
  return change;
}

void LossStatistic::resample(std::span<const Row> rows, const Row& base,
                             std::span<const uint32_t> counts, std::span<double> changes) const {
  const size_t n = base.values.size();
  if (task_ == LossTask::similarity) {
    std::vector<double> gold(n), ranks(n);
    rank(gold_, gold_order_, counts, gold);
    const auto with_gold = [&](const Row& row) {
      rank(row.values, row.order, counts, ranks);
      return correlation(ranks, gold, counts);
    };
    const double of_base = with_gold(base);
    for (size_t a = 0; a < rows.size(); ++a) changes[a] = of_base - with_gold(rows[a]);
    return;
  }
  double tokens = 0;
  for (size_t x = 0; x < n; ++x) {
    tokens += static_cast<double>(counts[x]) * static_cast<double>(tokens_[x]);
  }
  for (size_t a = 0; a < rows.size(); ++a) {
    double sum = 0;
    for (size_t x = 0; x < n; ++x) sum += counts[x] * (rows[a].values[x] - base.values[x]);
    changes[a] = tokens > 0 ? sum / tokens : kNaN;
  }
}

std::vector<double> LossStatistic::resampled(std::span<const std::vector<double>> values,
                                             const Row& base, int64_t resamples,
                                             uint64_t seed) const {
  const auto n = static_cast<uint32_t>(base.values.size());
  const size_t count = values.size();
  std::vector<Row> rows;
  for (const std::vector<double>& of_row : values) rows.push_back(row(of_row));
  std::vector<double> changes(resamples * count);
  parallel_for(resamples, [&](int64_t r) {
    std::vector<uint32_t> counts(n);
    Random random(derived_seed(seed, static_cast<uint64_t>(r), 0, kResample));
    for (uint32_t i = 0; i < n; ++i) ++counts[random.below(n)];
    resample(rows, base, counts, std::span(changes).subspan(r * count, count));
  });
  return changes;
}

bool LossStatistic::has_intervals() const {
  return std::ranges::count_if(tokens_, [](int64_t tokens) { return tokens > 0; }) > 1;
}

std::vector<std::optional<ConfidenceInterval>> LossStatistic::intervals(
    std::span<const std::vector<double>> values, std::span<const double> base, int64_t resamples,
    uint64_t seed, double alpha) const {
  if (!has_intervals()) return std::vector<std::optional<ConfidenceInterval>>(values.size());
  const Row of_base = row(base);
  std::vector<std::optional<ConfidenceInterval>> intervals;
  for (size_t begin = 0; begin < values.size(); begin += kValuesAtOnce) {
    const size_t count = std::min<size_t>(kValuesAtOnce, values.size() - begin);
    const std::vector<double> changes =
        resampled(values.subspan(begin, count), of_base, resamples, seed);
    for (size_t a = 0; a < count; ++a) {
      std::vector<double> of_row;
      for (int64_t r = 0; r < resamples; ++r) of_row.push_back(changes[r * count + a]);
      intervals.push_back(holding(std::move(of_row), alpha));
    }
  }
  return intervals;
}

std::optional<ConfidenceInterval> LossStatistic::interval_of_mean(
    std::span<const std::vector<double>> values, std::span<const double> base, int64_t resamples,
    uint64_t seed) const {
  if (!has_intervals()) return std::nullopt;
  const std::vector<double> changes = resampled(values, row(base), resamples, seed);
  std::vector<double> means;
  for (int64_t r = 0; r < resamples; ++r) {
    double sum = 0;
    for (size_t a = 0; a < values.size(); ++a) sum += changes[r * values.size() + a];
    means.push_back(sum / static_cast<double>(values.size()));
  }
  return holding(std::move(means), 0.05);
}

}  // namespace headwise
