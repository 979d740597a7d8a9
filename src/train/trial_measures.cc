// Measures trials, and gathers them by their settings.
#include "train/trial_measures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <numeric>
#include <set>

#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "headwise/model/head_ranks.h"
#include "headwise/model/model.h"
#include "io/file.h"
#include "model/random_texts.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kTextsAtOnce = 8;
constexpr double kSecondsOfMeasuring = 1;

/// Tokens per second of forward passes over texts as long as in training, in the best of several.
double inference_speed(const Model& model, int64_t length) {
  const auto [source, target] = random_texts(model.config(), kTextsAtOnce, length, 0);
  const auto tokens = static_cast<double>(source.rows() + target.rows());
  double best = 0;
  const Clock::time_point begin = Clock::now();
  for (int pass = 0; pass < 3 || std::chrono::duration<double>(Clock::now() - begin).count() <
                                     kSecondsOfMeasuring;
       ++pass) {
    const Clock::time_point start = Clock::now();
    (void)(target.sequences() > 0 ? model.forward(source, target) : model.forward(source));
    best = std::max(best, tokens / std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

void write_measures(const fs::path& file, const fs::path& folder, int64_t length) {
  const Model model = Model::load(folder);
  const std::vector<double> ranks = qk_ranks(model);
  ordered_json measures = {{"inference_tokens_per_second", inference_speed(model, length)},
                           {"qk_rank_mean", 0.0}};
  double sum = 0, learned = 0;
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t head = 0; head < std::ssize(site.heads); ++head) {
      const double rank = ranks[static_cast<size_t>(site.first + head)];
      if (std::isnan(rank)) continue;  // a fixed head
      measures["qk_rank"][site.head_name(head)] = rank;
      sum += rank;
      learned += 1;
    }
  }
  if (learned > 0) measures["qk_rank_mean"] = sum / learned;
  write_file_whole(file, json_text(measures, 2));
}

/// The 97.5 % quantile of Student's t.
double t_quantile(int64_t freedom) {
  constexpr auto kTable = std::to_array<double>(
      {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
       2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
       2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042});
  if (freedom <= std::ssize(kTable)) return kTable[static_cast<size_t>(freedom - 1)];
  // The first terms of its expansion in 1 / freedom, exact to three digits from here on.
  constexpr double z = 1.959964;
  return z + (z * z * z + z) / (4 * static_cast<double>(freedom));
}

std::string range_of(const std::set<int64_t>& numbers) {
  if (numbers.empty()) return "0";
  return numbers.size() == 1 ? fmt::format("{}", *numbers.begin())
                             : fmt::format("{} to {}", *numbers.begin(), *numbers.rbegin());
}

}  // namespace

Spread spread_of(const std::vector<double>& values) {
  Spread spread{.n = std::ssize(values)};
  const auto n = static_cast<double>(values.size());
  spread.mean = std::accumulate(values.begin(), values.end(), 0.) / n;
  if (values.size() < 2) return spread;
  double squares = 0;
  for (const double value : values) squares += (value - spread.mean) * (value - spread.mean);
  spread.half = t_quantile(spread.n - 1) * std::sqrt(squares / (n - 1) / n);
  return spread;
}

TrialResult read_trial(const Trial& trial, const fs::path& folder) {
  const fs::path measured = folder / "measures.json";
  if (!fs::exists(measured)) write_measures(measured, folder, trial.settings.data.length);
  const json summary_json = read_json(folder / "summary.json"), measures_json = read_json(measured);
  const JsonObject summary(summary_json, (folder / "summary.json").string());
  const JsonObject measures(measures_json, measured.string());
  TrialResult result{.parameters = summary.integer("parameters"),
                     .training_tokens_per_second = summary.number("tokens_per_second"),
                     .inference_tokens_per_second = measures.number("inference_tokens_per_second"),
                     .qk_rank = measures.number("qk_rank_mean")};
  for (const SweepValue& value : trial.values) {
    if (value.field != "seed") result.values.push_back(value);
  }
  std::set<int64_t> widths;
  for (const JsonObject& layer : summary.objects("layers")) {
    widths.insert(layer.integer("head_dim"));
  }
  result.head_dim = range_of(widths);
  const auto validation = summary.optional_object("validation");
  if (validation) result.perplexity = validation->optional_number("perplexity");
  const auto test = summary.optional_object("test");
  if (const auto& scored = test ? test : validation) {
    result.bleu = scored->optional_number("bleu");
    // Of tokens it is said by the perplexity already.
    if (!result.perplexity) result.accuracy = scored->optional_number("accuracy");
  }
  return result;
}

SweepTable make_table(const std::vector<TrialResult>& results) {
  SweepTable table;
  std::vector<std::vector<const TrialResult*>> groups;
  for (const TrialResult& result : results) {
    const auto found = std::ranges::find_if(
        groups, [&](const auto& group) { return group.front()->values == result.values; });
    found == groups.end() ? groups.push_back({&result}) : found->push_back(&result);
  }
  for (const auto& group : groups) {
    const auto spread = [&](auto member) {
      std::vector<double> values;
      for (const TrialResult* result : group) values.push_back(result->*member);
      return spread_of(values);
    };
    const auto optional_spread = [&](auto member) -> std::optional<Spread> {
      std::vector<double> values;
      for (const TrialResult* result : group) {
        if (result->*member) values.push_back(*(result->*member));
      }
      return values.empty() ? std::nullopt : std::optional(spread_of(values));
    };
    table.rows.push_back(
        {.values = group.front()->values,
         .head_dim = group.front()->head_dim,
         .parameters = group.front()->parameters,
         .perplexity = optional_spread(&TrialResult::perplexity),
         .bleu = optional_spread(&TrialResult::bleu),
         .accuracy = optional_spread(&TrialResult::accuracy),
         .training_tokens_per_second = spread(&TrialResult::training_tokens_per_second),
         .inference_tokens_per_second = spread(&TrialResult::inference_tokens_per_second),
         .qk_rank = spread(&TrialResult::qk_rank)});
  }
  return table;
}

}  // namespace headwise
