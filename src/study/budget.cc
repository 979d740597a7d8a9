// Estimates costs from shapes.
#include "study/budget.h"

#include <algorithm>
#include <cmath>

#include "model/stack_layout.h"

namespace headwise {
namespace {

constexpr double kUsualPasses = 100;
constexpr double kPassesPerHead = 0.55;  // of models with so many heads that this is more

// Passes that stages were measured to cost on texts of some hundred tokens and more.
constexpr double kAttention = 3, kSimilarity = 2, kWeights = 2, kGradients = 3, kPrune = 8,
                 kReport = 2;
constexpr double kLabelled = 1.5, kCharacters = 4;  // passes over labelled text; of a token
constexpr double kProbeTokens = 22000;  // of all probes and repeated sequences, with their overhead
constexpr double kFlexibleShare = 0.3;  // of the budget, which ablations and groups get at least
constexpr double kGroupShare = 0.3;     // of what ablations and groups get together
constexpr double kThoroughGroups = 41;  // ablations of a group
constexpr double kHeldOutRuns = 12;     // the model, the plan, ten random sets
constexpr double kCurveRuns = 14, kThoroughCurveRuns = 96;
constexpr double kOutputRuns = 2;  // for neighbours and labels

double layers_of(const Model& model) {
  return static_cast<double>(model.config().encoder.layers() + model.config().decoder.layers());
}

/// A pass from a layer on, in passes.
double depth(const Model& model, const AttentionSite& site) {
  const int64_t before = site.side == Side::decoder ? model.config().encoder.layers() : 0;
  return 1 - static_cast<double>(site.layer + before) / layers_of(model);
}

double single_ablations(const Model& model) {
  double passes = 0;
  for (const AttentionSite& site : model.attentions()) {
    passes += depth(model, site) * static_cast<double>(site.heads.size());
  }
  return passes;
}

}  // namespace

double usual_passes(const Model& model) {
  return std::max(kUsualPasses, kPassesPerHead * static_cast<double>(model.heads()));
}

std::vector<StageBudget> stage_budgets(const StudyInput& input, bool probes,
                                       std::optional<double> passes,
                                       const HeldOutPasses& held_out) {
  std::vector<StageBudget> stages = {{"load", 2}};
  const double tokens = std::max<double>(1, static_cast<double>(input.data.corpus.tokens()));
  if (!input.data.corpus.texts.empty()) stages.push_back({"attention", kAttention});
  double labelled = 0;  // characters
  for (const TreeSentence& tree : input.data.treebank) labelled += std::ssize(tree.text);
  for (const CoreferenceItem& item : input.data.coreference) labelled += std::ssize(item.text);
  if (labelled > 0) stages.push_back({"linguistic", kLabelled * labelled / kCharacters / tokens});
  stages.push_back({"similarity", kSimilarity + kWeights});
  if (probes) stages.push_back({"probes", kProbeTokens / tokens});
  const bool measured = input.data.evaluation.has_value();
  if (measured) {
    stages.push_back({"gradients", kGradients});
    stages.push_back({"ablation", single_ablations(input.model) * (passes ? 1 : 2)});
    stages.push_back({"groups", passes ? 0 : kThoroughGroups * 10});
  }
  const bool scores_outputs = measured && !scores_tokens(input.data.evaluation->task);
  stages.push_back({"plan", kHeldOutRuns * held_out.all +
                                (scores_outputs ? kOutputRuns * held_out.first_masks : 0) +
                                (passes ? kCurveRuns : kThoroughCurveRuns) * held_out.first_masks});
  stages.push_back({"prune", kPrune});
  stages.push_back({"report", kReport});
  if (!passes || !measured) return stages;
  const auto stage = [&](std::string_view name) {
    return std::ranges::find(stages, name, &StageBudget::name);
  };
  double left = *passes;
  for (const StageBudget& other : stages) {
    if (other.name != "ablation" && other.name != "groups") left -= other.passes;
  }
  left = std::max(kFlexibleShare * *passes, left);
  stage("groups")->passes = kGroupShare * left;
  stage("ablation")->passes = (1 - kGroupShare) * left;
  return stages;
}

double passes_of(const std::vector<StageBudget>& stages, std::string_view name) {
  const auto found = std::ranges::find(stages, name, &StageBudget::name);
  return found == stages.end() ? 0 : found->passes;
}

Undecided undecided_heads(const Verdict& verdict, const Evidence& evidence, const Model& model,
                          double share) {
  if (!evidence.loss) return {};
  std::vector<double> costs, more;
  bool out_of_examples = true;
  const auto of_set = static_cast<double>(std::max<int64_t>(1, evidence.loss->examples));
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      const std::string name = site.head_name(h);
      const auto head = std::ranges::find(verdict.heads, name, &HeadVerdict::head);
      if (head == verdict.heads.end() || head->standing != Standing::undecided) continue;
      const Measure& measure = *head->importance.ablation_zero;
      const auto n = static_cast<double>(measure.n);
      const ConfidenceInterval& interval = *measure.interval;
      // The end of the interval that has to pass the tolerance comes nearer with the root of n.
      const double distance = std::abs(verdict.tolerance - measure.value);
      const double reach = verdict.tolerance > measure.value ? interval.high - measure.value
                                                             : measure.value - interval.low;
      const double needed = std::min(1e9, n * std::pow(reach / std::max(distance, 1e-12), 2));
      costs.push_back(share * depth(model, site) * std::max(0., needed - n) / of_set);
      more.push_back(std::max(0., needed - of_set));
      out_of_examples = out_of_examples && n >= of_set;
    }
  }
  std::ranges::sort(costs);
  std::ranges::sort(more);
  Undecided undecided{.heads = std::ssize(costs), .out_of_examples = out_of_examples};
  if (!more.empty()) {
    undecided.examples_half = std::llround(more[(more.size() - 1) / 2]);
  }
  for (size_t i = 0; i < costs.size(); ++i) {
    undecided.passes += costs[i];
    if (i < (costs.size() + 1) / 2) undecided.passes_half += costs[i];
  }
  return undecided;
}

}  // namespace headwise
