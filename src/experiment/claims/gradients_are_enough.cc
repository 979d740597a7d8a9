// Which numbers about heads say what removing several of them together costs: against the exact
// best sets of small models, all of whose sets are measured.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "experiment/claims/claims.h"
#include "experiment/subject.h"
#include "experiment/training.h"
#include "headwise/io/output_file.h"
#include "headwise/text/lines.h"

namespace headwise {
namespace {

using nlohmann::json;

struct Predictor {
  const char* name;
  double sign;  // of importance: heads of low entropy should matter
};
constexpr Predictor kPredictors[] = {{"ablation_zero", 1},
                                     {"gradient", 1},
                                     {"contribution_norm", 1},
                                     {"entropy", -1},
                                     {"mass_first", -1}};

json run(const json& settings, int64_t seed, TrialContext& context) {
  const std::filesystem::path folder = context.folder(), text = folder / "train.txt";
  std::string lines;
  int64_t number = 0;
  for (const std::string& line : read_lines(context.data(settings.at("data")))) {
    if (number++ == settings.at("first_line")) break;
    lines += line + "\n";
  }
  write_file_whole(text, lines);
  json training = settings.at("training");
  training["data"]["train"] = text.string();
  training["seed"] = seed;
  train_in_trial(training, folder / "model", context);
  const Model model = Model::load(folder / "model");
  const EvaluationSet set = examples_of(subject_of(settings), model, context);
  const auto halves = random_halves(set.size());
  const EvaluationSet choosing = examples_of(set, halves[0]), testing = examples_of(set, halves[1]);

  const Evidence evidence = measure_heads(
      model, choosing, {"entropy", "mass_first", "contribution_norm", "gradient", "ablation_zero"},
      context);
  json result;
  for (const Predictor& predictor : kPredictors) {
    result["predictors"][predictor.name] = values_of(evidence, predictor.name);
  }
  std::vector<std::vector<int64_t>> sets(size_t{1} << model.heads());
  for (size_t mask = 0; mask < sets.size(); ++mask) {
    for (int64_t h = 0; h < model.heads(); ++h) {
      if ((mask >> h & 1) != 0) sets[mask].push_back(h);
    }
  }
  HeadLosses losses(model, testing);
  result["loss"] = losses.loss(context);
  sets.erase(sets.begin());  // no head
  result["changes"] = to_json(losses.changes(sets, context)).at("value");
  return result;
}

std::vector<ExperimentTrial> trials(const json& settings) {
  std::vector<ExperimentTrial> trials;
  for (const int64_t seed : settings.at("seeds")) {
    trials.push_back({.name = fmt::format("seed={}", seed),
                      .run = [=](TrialContext& context) { return run(settings, seed, context); }});
  }
  return trials;
}

/// What all sets of a model cost, by how many heads they have.
class AllSets {
 public:
  explicit AllSets(const json& result) : changes_(result.at("changes").get<std::vector<double>>()) {
    changes_.insert(changes_.begin(), 0);
    heads_ = std::bit_width(changes_.size()) - 1;
    best_.assign(heads_ + 1, std::numeric_limits<double>::infinity());
    mean_.assign(heads_ + 1, 0);
    std::vector<double> count(heads_ + 1);
    for (size_t mask = 0; mask < changes_.size(); ++mask) {
      const int size = std::popcount(mask);
      best_[size] = std::min(best_[size], changes_[mask]);
      mean_[size] += changes_[mask];
      ++count[size];
    }
    for (int size = 0; size <= heads_; ++size) mean_[size] /= count[size];
  }

  /// Of the sets that go first in this order, for 1 to all but one heads: what they cost above the
  /// best set, as a share of what a random set costs above it. 0: the best; 1: random.
  std::vector<double> regret(const std::vector<double>& importance) const {
    std::vector<int> order(heads_);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int head) { return importance[head]; });
    std::vector<double> regret;
    size_t mask = 0;
    for (int size = 1; size < heads_; ++size) {
      mask |= size_t{1} << order[size - 1];
      regret.push_back((changes_[mask] - best_[size]) / (mean_[size] - best_[size]));
    }
    return regret;
  }

 private:
  std::vector<double> changes_, best_, mean_;
  int heads_ = 0;
};

Finding judge(const json& settings, const TrialResults& results) {
  const double margin = settings.at("margin");
  std::map<std::string, std::vector<double>> mean_regret;  // by predictor: a value per seed
  std::map<std::string, std::map<int, std::vector<double>>> by_size;
  for (const int64_t seed : settings.at("seeds")) {
    const json& result = results.at(fmt::format("seed={}", seed));
    const AllSets sets(result);
    for (const Predictor& predictor : kPredictors) {
      auto importance = result.at("predictors").at(predictor.name).get<std::vector<double>>();
      for (double& value : importance) value *= predictor.sign;
      const std::vector<double> regret = sets.regret(importance);
      mean_regret[predictor.name].push_back(mean_of(regret).value);
      for (size_t i = 0; i < regret.size(); ++i) {
        by_size[predictor.name][static_cast<int>(i) + 1].push_back(regret[i]);
      }
    }
  }
  Finding finding{.figure_name =
                      "regret of gradients minus that of ablations (0: best set, 1: random)"};
  const auto add_test = [&](const std::string& name, const Estimate& estimate, double p) {
    finding.family.push_back({.name = name,
                              .figure = estimate.value,
                              .interval = estimate.interval(),
                              .n = estimate.n,
                              .p = p});
  };
  const Estimate difference =
      paired_difference(mean_regret["gradient"], mean_regret["ablation_zero"]);
  add_test("gradient is worse than ablation by less than the margin", difference,
           difference.p_below(margin));
  add_test("gradient is worse than ablation by more than the margin", difference,
           difference.p_above(margin));
  for (const Predictor& predictor : kPredictors) {
    const Estimate regret = mean_of(mean_regret[predictor.name]);
    add_test(fmt::format("{} is better than random", predictor.name), regret, regret.p_below(1));
  }
  const Estimate norm =
      paired_difference(mean_regret["contribution_norm"], mean_regret["mass_first"]);
  add_test("contribution_norm is better than mass_first", norm, norm.p_below(0));
  const std::vector<double> corrected = holm(finding.family);
  finding.figure = difference.value;
  finding.interval = difference.interval();
  finding.n = difference.n;
  finding.outcome = corrected[0] < 0.05   ? ClaimOutcome::confirmed
                    : corrected[1] < 0.05 ? ClaimOutcome::refuted
                                          : ClaimOutcome::not_decided;
  std::vector<std::string> regrets;
  for (const Predictor& predictor : kPredictors) {
    regrets.push_back(
        fmt::format("{} {:.2f}", predictor.name, mean_of(mean_regret[predictor.name]).value));
  }
  finding.why = fmt::format(
      "Mean regret over all sizes of sets (0: the exact best set, 1: a random one): {}. Gradients "
      "minus ablations: {:+.3f}; the margin is {:.2g}. Output norm is {}better than attention to "
      "the "
      "first token (corrected p = {:.2g}).",
      fmt::join(regrets, ", "), difference.value, margin,
      corrected.back() < 0.05 ? "" : "not shown to be ", corrected.back());
  finding.plot = {.title = "Cost of the heads that a number would remove first",
                  .x_label = "heads removed",
                  .y_label = "regret: 0 best set, 1 random",
                  .y_marks = {0, 1}};
  for (const Predictor& predictor : kPredictors) {
    PlotSeries& series =
        finding.plot.series.emplace_back(PlotSeries{.name = predictor.name, .line = true});
    for (const auto& [size, values] : by_size[predictor.name]) {
      series.points.push_back({.x = static_cast<double>(size), .y = mean_of(values).value});
    }
  }
  return finding;
}

}  // namespace

ExperimentKind gradients_are_enough() {
  return {.name = "gradients-are-enough", .trials = trials, .judge = judge};
}

}  // namespace headwise
