// What pretrained models are measured on, and the losses of their heads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "experiment/experiment_kind.h"
#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/observe/evaluation.h"
#include "headwise/observe/evidence.h"
#include "headwise/observe/measure_groups.h"
#include "observe/loss_sweep.h"

namespace headwise {

/// A model and examples of a task. In the settings, of which only `task` and `model` are required
/// beside `data`:
///   {"model": "stories15m", "task": "lm", "data": "wikitext2-valid.txt", "first_line": 0,
///    "examples": 400, "length": 64, "positions": 1}
struct Subject {
  std::string name{};  // "stories15m lm wikitext2-valid.txt"
  std::string model{};
  LossTask task = LossTask::fidelity;
  std::string data{};
  int64_t first_line = 0;  // lines before it are left out
  int64_t examples = 400;  // drawn by a fixed seed; all if there are fewer
  int64_t length = 64;     // tokens of an example
  double positions = 1;    // lm: the share of tokens that are scored, drawn by a fixed seed
};
Subject subject_of(const nlohmann::json& json);
/// settings["subjects"]
std::vector<Subject> subjects_of(const nlohmann::json& settings);

/// lm: blocks of consecutive tokens. fidelity: the lines of 8 words and more, cut where they are
/// too long; of files named .tsv what stands before the first tab. classify: labelled lines.
EvaluationSet examples_of(const Subject& subject, const Model& model, TrialContext& context);

/// Losses with heads ablated. Everything is paired over examples.
class HeadLosses {
 public:
  /// Both must outlive it.
  HeadLosses(const Model& model, const EvaluationSet& set);

  /// What ablating each set of heads adds to the loss; `mean` replaces their outputs by the mean.
  std::vector<Estimate> changes(std::span<const std::vector<int64_t>> sets, TrialContext& context,
                                bool mean = false);
  /// The same for some examples alone.
  std::vector<Estimate> changes(std::span<const std::vector<int64_t>> sets,
                                std::span<const int64_t> examples, TrialContext& context,
                                bool mean = false);
  /// Of the model itself, over all examples.
  double loss(TrialContext& context);

  int64_t size() const { return sweep_.size(); }

 private:
  SentencePooling pooling_;
  LossSweep sweep_;
};

/// A trial of many experiments: {"loss", "scale", "heads", "layers", "changes"}. The scale is what
/// changes are shares of: the loss, or 1 for fidelity, which is 0 for the model itself. Layers are
/// the depths of the heads.
nlohmann::json ablate_single_heads(const Subject& subject, TrialContext& context);
/// One trial per subject: that one, or another.
using SubjectTrial = std::function<nlohmann::json(const Subject&, TrialContext&)>;
std::vector<ExperimentTrial> subject_trials(const nlohmann::json& settings,
                                            const SubjectTrial& run);
std::vector<ExperimentTrial> single_head_trials(const nlohmann::json& settings);

/// Measures of all heads on these examples: names of docs/measures.md.
Evidence measure_heads(const Model& model, const EvaluationSet& set, const MeasureSelection& names,
                       TrialContext& context);
/// One of them, of every head; NaN where it is not measured.
std::vector<double> values_of(const Evidence& evidence, std::string_view measure);

/// The numbers below n in two halves, ascending, drawn by a fixed seed.
std::array<std::vector<int64_t>, 2> random_halves(int64_t n);

/// {0}, {1}, …: every head alone.
std::vector<std::vector<int64_t>> each_head(const Model& model);

/// {"value": […], "error": […], "n": …} with six digits, and back.
nlohmann::json to_json(std::span<const Estimate> estimates);
std::vector<Estimate> estimates_from(const nlohmann::json& json);

}  // namespace headwise
