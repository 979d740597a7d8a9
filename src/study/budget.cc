// Estimates costs from shapes.
#include "study/budget.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "headwise/model/sentence_embedding.h"
#include "observe/loss_sweep.h"
#include "observe/pass_work.h"

namespace headwise {
namespace {

constexpr double kUsualPasses = 100;
constexpr double kPassesPerHead = 0.55;  // of models with so many heads that this is more

// Passes that stages were measured to cost on texts of some hundred tokens and more.
constexpr double kLoad = 4, kAttention = 3.5, kWeights = 1, kGradients = 2.5, kPrune = 8,
                 kReport = 0.5;
constexpr double kLabelled = 1.5, kCharacters = 4;  // passes over labelled text; of a token
constexpr double kProbeTokens = 40000;  // of all probes and repeated sequences, with their overhead
constexpr double kFlexibleShare = 0.3;  // of the budget, which ablations and groups get at least
constexpr double kGroupShare = 0.3;     // of what ablations and groups get together
constexpr double kThoroughGroups = 41;  // ablations of a group
constexpr double kHeldOutRuns = 12;     // the model, the plan, ten random sets
constexpr double kCurveRuns = 14, kThoroughCurveRuns = 96;
constexpr double kOutputRuns = 2;  // for neighbours and labels

/// A pass is over the data that the loss is taken over, or over the texts where there is no loss.
double tokens_of_pass(const ObserveData& data) {
  int64_t tokens = data.corpus.tokens();
  if (data.evaluation) {
    const TrainingBatch& all = data.evaluation->examples.all;
    tokens = all.source.rows() + all.target.rows();
  }
  return static_cast<double>(std::max<int64_t>(1, tokens));
}

/// The share of a pass that a run without the output layer costs.
double share_of_blocks(const Model& model, const StudyInput& input) {
  if (!input.data.evaluation || !scores_tokens(input.data.evaluation->task)) return 1;
  const EvaluationSet& set = *input.data.evaluation;
  const TrainingBatch& all = set.examples.all;
  const PassWork work(model, set);
  WorkTokens tokens{.source = all.source.rows(), .target = all.target.rows()};
  tokens.read = std::ssize(all.labels) - std::ranges::count(all.labels, kIgnoreIndex);
  const double blocks = work.whole(tokens);
  tokens.scored = tokens.read;
  return blocks / work.whole(tokens);
}

/// Zero ablations of every head over all examples.
double single_ablations(const Model& model, const StudyInput& input) {
  const EvaluationSet& set = *input.data.evaluation;
  const SentencePooling pooling = SentencePooling::find_or_mean(model.folder());
  const LossSweep sweep(model, pooling, set, {});
  std::vector<Ablation> ablations;
  for (int64_t head = 0; head < model.heads(); ++head) ablations.push_back({.heads = {head}});
  std::vector<int64_t> all(set.size());
  std::iota(all.begin(), all.end(), 0);
  return sweep.passes(ablations, all);
}

}  // namespace

double usual_passes(const Model& model) {
  return std::max(kUsualPasses, kPassesPerHead * static_cast<double>(model.heads()));
}

std::vector<StageBudget> stage_budgets(const Model& model, const StudyInput& input, bool probes,
                                       std::optional<double> passes,
                                       const HeldOutPasses& held_out) {
  std::vector<StageBudget> stages = {{"load", kLoad}};
  const double tokens =
      tokens_of_pass(input.data) / share_of_blocks(model, input);                  // without output
  const double corpus = static_cast<double>(input.data.corpus.tokens()) / tokens;  // in passes
  if (!input.data.corpus.texts.empty()) stages.push_back({"attention", kAttention * corpus});
  double labelled = 0;  // characters
  for (const TreeSentence& tree : input.data.treebank) labelled += std::ssize(tree.text);
  for (const CoreferenceItem& item : input.data.coreference) labelled += std::ssize(item.text);
  if (labelled > 0) stages.push_back({"linguistic", kLabelled * labelled / kCharacters / tokens});
  stages.push_back({"similarity", kWeights});
  if (probes) stages.push_back({"probes", kProbeTokens / tokens});
  const bool measured = input.data.evaluation.has_value();
  if (measured) {
    stages.push_back({"gradients", kGradients});
    stages.push_back({"ablation", passes ? 0 : 2 * single_ablations(model, input)});
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

int64_t choosing_examples(const Evidence& evidence) {
  int64_t most = evidence.loss ? evidence.loss->examples : 0;
  for (const HeadEvidence& head : evidence.heads) {
    const Measure* const measure = head.measures.find("ablation_zero");
    if (measure != nullptr) most = std::max(most, measure->n);
  }
  return most;
}

Undecided undecided_heads(const Verdict& verdict, const Evidence& evidence, const Model& model,
                          double share) {
  if (!evidence.loss) return {};
  std::vector<double> costs, more;
  bool out_of_examples = true;
  const LossTask task = loss_task(evidence.loss->task);
  const int64_t examples = std::max<int64_t>(1, evidence.loss->examples);
  const int64_t tokens = std::max<int64_t>(1, evidence.loss->tokens);
  const auto of_set = static_cast<double>(examples);
  const double length = static_cast<double>(tokens) / of_set;
  const PassWork work(model, task, length, model.config().encoder_decoder() ? length : 0);
  const WorkTokens all{.source = tokens,
                       .target = model.config().encoder_decoder() ? tokens : 0,
                       .read = tokens,
                       .scored = scores_tokens(task) ? tokens : 0};
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
      const std::array head_alone = {site.first + h};
      const double of_pass = work.ablation(head_alone, all) / work.whole(all);
      costs.push_back(share * of_pass * std::max(0., needed - n) / of_set);
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
