// What is measured of the trials of a sweep, and the table of all.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headwise/train/sweep.h"

namespace headwise {

struct TrialResult {
  std::vector<SweepValue> values{};  // without the seed
  std::string head_dim{};
  int64_t parameters = 0;
  std::optional<double> perplexity{}, bleu{}, accuracy{};
  double training_tokens_per_second = 0;
  double inference_tokens_per_second = 0;
  double qk_rank = 0;
};

/// From the folder of a trial that is done. What its summary does not say, the speed of inference
/// and the ranks of heads, is measured once and kept in measures.json.
TrialResult read_trial(const Trial& trial, const std::filesystem::path& folder);

/// A row for each set of values, in the order of the results.
SweepTable make_table(const std::vector<TrialResult>& results);

}  // namespace headwise
