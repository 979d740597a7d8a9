// A model before and after pruning, side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/summary.h"
#include "headwise/observe/evaluation.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// How far a pruned model is from what it was meant to be.
struct EquivalenceCheck {
  double max_difference = 0;  // of last hidden states, relative to the largest of them
  int64_t texts = 0, tokens = 0;
  bool random_ids = false;
};

/// Seconds for a batch of texts of one length, measured in turns; medians.
struct SpeedComparison {
  int64_t texts = 0, tokens = 0;  // of one text
  double before = 0, after = 0;
  /// 95 % intervals of these medians; of fewer than 6 passes, all of them.
  ConfidenceInterval before_interval{}, after_interval{};

  /// Whether the passes differ by more than they spread.
  bool saves_time() const { return after_interval.high < before_interval.low; }
  bool costs_time() const { return after_interval.low > before_interval.high; }
};

/// The interval above, of at least one pass.
ConfidenceInterval interval_of_median(std::vector<double> seconds);

/// A model before or after heads were removed.
struct ModelState {
  int64_t heads = 0;
  ModelSummary summary{};
  std::optional<LossEvidence> loss{};  // where there is something to measure it on
};

struct PruneReport {
  std::string form{}, compensate{}, out{};
  std::string original{};              // its Hugging Face id; empty if it is not known
  std::vector<std::string> removed{};  // heads, one by one: "L3.H1"
  std::string order{};                 // that chose them; empty: they were named
  bool recovered = false;
  ModelState before{}, after{};
  EquivalenceCheck proof{};
  std::optional<LossEvidence> cut{};  // the loss before recovery
  std::vector<SpeedComparison> speed{};
};

/// The loss of a model over a set. Fidelity is to `original`; null: the model is the original.
/// `check` is called now and then, and may throw.
LossEvidence loss_of(const Model& model, const EvaluationSet& set, const Model* original,
                     const std::function<void()>& check = {});

/// A line of the table of a report.
struct ReportRow {
  std::string name{};             // "parameters", "mlm loss", "ms for 8 x 128 tokens"
  std::string before{}, after{};  // as they are shown: "22,713,216"
  std::optional<double> ratio{};  // none: it was 0 before
  bool equal = false;             // times that cannot be told apart from the spread of passes

  /// "0.924", "equal", or nothing without a ratio.
  std::string ratio_text() const;
};
std::vector<ReportRow> rows_of(const PruneReport& report);

/// The object "prune" of summary.json, and what `headwise prune --json` prints.
std::string to_json(const PruneReport& report);

}  // namespace headwise
