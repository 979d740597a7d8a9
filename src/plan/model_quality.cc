// Measures losses and scores with heads closed by gates.
#include "plan/model_quality.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/stack_layout.h"
#include "observe/label_scores.h"
#include "observe/loss_table.h"
#include "train/translation_bleu.h"

namespace headwise {
namespace {

std::vector<float> gates_of(std::span<const uint8_t> kept) { return {kept.begin(), kept.end()}; }

}  // namespace

ModelQuality::ModelQuality(const Model& model, const std::filesystem::path& folder,
                           const EvaluationSet& set, const Tokenizer* tokenizer)
    : model_(model),
      folder_(folder),
      set_(set),
      tokenizer_(tokenizer),
      pooling_(SentencePooling::find_or_mean(folder)),
      sweep_(model, pooling_, set, {}) {}

std::vector<ModelQuality::Quality> ModelQuality::measure(
    std::span<const std::vector<uint8_t>> choices, bool scored, const Progress& progress) {
  std::vector<Choice> wanted;
  for (const std::vector<uint8_t>& kept : choices) {
    Choice choice(kept, scored);
    if (known_.contains(choice) || std::ranges::find(wanted, choice) != wanted.end()) continue;
    wanted.push_back(std::move(choice));
  }
  if (!wanted.empty()) measure_new(wanted, progress);
  std::vector<Quality> qualities;
  for (const std::vector<uint8_t>& kept : choices) qualities.push_back(known_.at({kept, scored}));
  return qualities;
}

void ModelQuality::measure_new(const std::vector<Choice>& choices, const Progress& progress) {
  std::vector<Ablation> ablations;
  for (const auto& [kept, scored] : choices) ablations.push_back(without(kept));
  const SweepValues values = sweep_.run(ablations, progress);
  const LossStatistic statistic(set_.task, sweep_.tokens(), sweep_.gold());
  for (size_t c = 0; c < choices.size(); ++c) {
    const auto& [kept, scored] = choices[c];
    const std::span<const int32_t> labels =
        values.ablated_labels.empty() ? std::span<const int32_t>() : values.ablated_labels[c];
    known_[choices[c]] =
        quality(statistic.loss(values.ablated[c]), labels, gates_of(kept), scored, progress);
  }
}

/// Heads that the loss does not depend on change nothing.
Ablation ModelQuality::without(std::span<const uint8_t> kept) const {
  const bool decodes = !model_.config().encoder_decoder() || set_.examples.all.target.texts() > 0;
  Ablation ablation;
  for (int64_t head = 0; head < std::ssize(kept); ++head) {
    const bool counts = decodes || site_of_head(model_.attentions(), head)->side == Side::encoder;
    if (!kept[head] && counts) ablation.heads.push_back(head);
  }
  return ablation;
}

ModelQuality::Quality ModelQuality::quality(double loss, std::span<const int32_t> labels,
                                            std::span<const float> gates, bool scored,
                                            const Progress& progress) const {
  Quality quality{.loss = loss};
  check_loss(set_.task, loss);
  if (!scored) return quality;
  if (set_.task == LossTask::similarity) quality.score = 1 - loss;
  if (set_.task == LossTask::classify) {
    quality.score =
        label_scores(labels, set_.examples.all.labels, model_.output_width()).at("accuracy");
  }
  if (score_name() == "bleu") quality.score = bleu(gates, progress);
  return quality;
}

std::string ModelQuality::score_name() const {
  if (set_.task == LossTask::classify) return "accuracy";
  if (set_.task == LossTask::similarity) return "spearman";
  return !set_.references.empty() && tokenizer_ != nullptr ? "bleu" : "";
}

double ModelQuality::bleu(std::span<const float> gates, const Progress& progress) const {
  GenerateOptions how = translation_options(folder_, model_.config());
  how.forward.gates = {gates.data(), {1, model_.heads()}};
  return translation_bleu(model_, set_.examples.all.source, how, *tokenizer_, set_.references,
                          [&](int64_t done) {
                            if (progress) progress(done, set_.size());
                          });
}

std::vector<double> ModelQuality::changes(std::span<const uint8_t> kept,
                                          const Progress& progress) const {
  LossSweep sweep(model_, pooling_, set_, {.gates = gates_of(kept)});
  const LossStatistic statistic(set_.task, sweep.scorer().tokens(), set_.examples.all.scores);
  std::vector<Ablation> ablations;
  for (int64_t head = 0; head < model_.heads(); ++head) {
    if (kept[head]) ablations.push_back({.heads = {head}});
  }
  const SweepValues values = sweep.run(ablations, progress);
  std::vector<double> changes(model_.heads(), std::numeric_limits<double>::quiet_NaN());
  for (size_t a = 0; a < ablations.size(); ++a) {
    changes[ablations[a].heads[0]] = statistic.change(values.ablated[a], values.base);
  }
  return changes;
}

}  // namespace headwise
