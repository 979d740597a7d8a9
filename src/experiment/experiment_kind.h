// What an experiment is made of: trials, and the rule that turns them into a verdict.
//
// docs/experiments.md shows how to add one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiment/plot.h"
#include "experiment/statistics.h"
#include "headwise/experiment/experiment.h"
#include "headwise/model/model.h"

namespace headwise {

/// What a trial works with. It notes what was used, for the trial's line.
class TrialContext {
 public:
  virtual ~TrialContext() = default;

  /// By the name that the settings give it: one of --model, or a tiny one that is made here
  /// (tiny_models.h).
  virtual const Model& model(const std::string& name) = 0;
  /// A file by the path that the settings give it, below the folder of the data.
  virtual std::filesystem::path data(const std::string& file) = 0;
  /// An empty folder for the files of this trial, or what a run that was stopped left in it. It is
  /// deleted when the trial has ended.
  virtual std::filesystem::path folder() = 0;
  virtual uint64_t seed() const = 0;
  /// May throw to stop.
  virtual void progress(int64_t done, int64_t total) = 0;
};

/// One line of trials.jsonl, at most 5 minutes of work.
struct ExperimentTrial {
  std::string name{};   // unique: "stories15m lm half=1", "heads=4 seed=0"
  std::string model{};  // that must be given with --model; empty: none
  std::function<nlohmann::json(TrialContext&)> run{};  // gives what the trial's line says
};

/// What trials gave, by their names. Those that are not done are not there.
using TrialResults = std::map<std::string, nlohmann::json>;

/// What a rule finds. Tests of `family` need no p_holm: it is computed for them.
struct Finding {
  ClaimOutcome outcome = ClaimOutcome::not_decided;
  std::string depends_on{}, why{};
  std::string figure_name{};
  std::optional<double> figure{};
  std::optional<ConfidenceInterval> interval{};
  int64_t n = 0;
  std::vector<ClaimTest> family{};
  Plot plot{};
};

/// The usual rule: a claim that holds in all models is confirmed, one that fails in all of them
/// refuted, and one that does both depends on the model. Models in which neither is shown decide
/// nothing.
void decide_over_models(int64_t holds, int64_t fails, int64_t models, Finding& finding);

struct ExperimentKind {
  std::string_view name{};  // of the folder in experiments/
  /// All trials, from the settings alone: nothing is loaded.
  std::vector<ExperimentTrial> (*trials)(const nlohmann::json& settings){};
  /// Called when all trials are done. Must depend on nothing but its arguments.
  Finding (*judge)(const nlohmann::json& settings, const TrialResults& results){};
};

/// The settings of experiments/NAME, or with --quick those of their object "quick" in place of
/// fields of the same names.
nlohmann::json settings_of(const ExperimentInfo& info, bool quick);

/// All experiments, in the order in which they are listed.
std::span<const ExperimentKind> experiment_kinds();

}  // namespace headwise
