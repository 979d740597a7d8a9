// Losses of examples, with and without heads: what the whole set says, and how surely.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headwise/observe/evaluation.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// Spearman correlation: Pearson's of ranks, equal numbers sharing the mean of theirs. Each counts
/// as often as `counts` says. NaN if all of one side are equal.
double spearman(std::span<const double> a, std::span<const double> b,
                std::span<const uint32_t> counts);

/// Throws Error unless the loss of a set is a finite number.
void check_loss(LossTask task, double loss);

/// The p-quantile of sorted numbers, between two of them by their distance.
double quantile(std::span<const double> sorted, double p);

/// How the values of examples make up the loss of a set.
class LossStatistic {
 public:
  /// `tokens` [n] and `gold` [n], the latter of similarity only, must outlive it.
  LossStatistic(LossTask task, std::span<const int64_t> tokens, std::span<const float> gold);

  /// The loss of examples with these values [n], each counted so often; NaN over nothing.
  double loss(std::span<const double> values, std::span<const uint32_t> counts) const;
  double loss(std::span<const double> values) const;

  /// The loss with `values` minus that with `base`.
  double change(std::span<const double> values, std::span<const double> base) const;

  /// Whether two examples or more are scored: one alone does not show how examples differ.
  bool has_intervals() const;

  /// Of each row of `values`: the interval that holds 1 - alpha of the changes over resamples of
  /// the examples, or none. All rows see the same resamples, which the seed draws.
  std::vector<std::optional<ConfidenceInterval>> intervals(
      std::span<const std::vector<double>> values, std::span<const double> base, int64_t resamples,
      uint64_t seed, double alpha = 0.05) const;
  /// The same of the mean change of all rows.
  std::optional<ConfidenceInterval> interval_of_mean(std::span<const std::vector<double>> values,
                                                     std::span<const double> base,
                                                     int64_t resamples, uint64_t seed) const;

 private:
  struct Row;  // of values
  Row row(std::span<const double> values) const;
  /// [resamples, rows]
  std::vector<double> resampled(std::span<const std::vector<double>> values, const Row& base,
                                int64_t resamples, uint64_t seed) const;
  void resample(std::span<const Row> rows, const Row& base, std::span<const uint32_t> counts,
                std::span<double> changes) const;

  LossTask task_;
  std::span<const int64_t> tokens_;
  std::vector<double> gold_;
  std::vector<int32_t> gold_order_;
};

}  // namespace headwise
