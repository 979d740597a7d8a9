// Runs a training for every combination of settings (`headwise sweep`).
//
// Every trial has a folder of its own, as train() leaves it, with a manifest.json that says which
// trial it is. Trials that are done are not done again, and one that was killed goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headwise/train/trainer.h"

namespace headwise {

/// One setting of a trial: "model.heads", and its value as JSON.
struct SweepValue {
  std::string field{}, value{};
  bool operator==(const SweepValue&) const = default;
};

struct Trial {
  std::string name{};  // of its folder: "heads=4,seed=1"
  std::vector<SweepValue> values{};
  TrainSettings settings{};
};

struct Sweep {
  std::vector<Trial> trials{};
  std::string text{};  // of the file
};

/// {"base": SETTINGS or the name of a file with them, "grid": {"model.heads": [1, 2], "seed": [0,
/// 1]}}: every combination of the values. Throws Error for settings that no training would take.
Sweep read_sweep(const std::filesystem::path& file);

/// A mean over seeds, and the half of its 95 % interval (Student's t), if there are several.
struct Spread {
  double mean = 0;
  std::optional<double> half{};
  int64_t n = 0;
};
Spread spread_of(const std::vector<double>& values);

/// Trials that differ in their seed alone.
struct SweepRow {
  std::vector<SweepValue> values{};  // without the seed
  std::string head_dim{};            // "32", or "16 to 64"
  int64_t parameters = 0;
  std::optional<Spread> perplexity{};  // of validation
  std::optional<Spread> bleu{};        // of the test data, or of validation without any
  std::optional<Spread> accuracy{};    // the same
  Spread training_tokens_per_second{};
  Spread inference_tokens_per_second{};
  Spread qk_rank{};  // the mean over heads
};

struct SweepTable {
  std::vector<SweepRow> rows{};
};

std::string to_json(const SweepTable& table);
std::string to_text(const SweepTable& table);
std::string to_markdown(const SweepTable& table);

class SweepObserver {
 public:
  virtual ~SweepObserver() = default;
  /// Called before each trial; returns its observer. `done`: the trial is finished and skipped.
  virtual TrainObserver& begin(const Trial& trial, int64_t index, int64_t trials, bool done) = 0;
};

/// Nothing if a trial was interrupted. Writes table.json and table.md into the folder after every
/// trial.
std::optional<SweepTable> run_sweep(const Sweep& sweep, const std::filesystem::path& folder,
                                    SweepObserver& observer);

}  // namespace headwise
