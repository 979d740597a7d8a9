// Measures losses and scores with heads masked by gates.
#include "plan/model_quality.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "headwise/kernels/softmax.h"
#include "model/stack_layout.h"
#include "observe/adaptive_ablation.h"
#include "observe/label_scores.h"
#include "observe/loss_batch.h"
#include "train/translation_bleu.h"

namespace headwise {
namespace {

constexpr int64_t kFewestForInterval = 5, kResamples = 1000, kRowsAtOnce = 512;
constexpr double kAlpha = 0.05;

std::vector<float> gates_of(std::span<const uint8_t> kept) { return {kept.begin(), kept.end()}; }

/// The sums over the masks of each text.
template <class T>
std::vector<T> by_text(std::span<const T> values, int64_t masks) {
  std::vector<T> sums(values.size() / masks);
  for (size_t x = 0; x < values.size(); ++x) sums[x / masks] += values[x];
  return sums;
}

}  // namespace

ModelQuality::ModelQuality(const Model& model, const EvaluationSet& set)
    : model_(model),
      set_(set),
      pooling_(SentencePooling::find_or_mean(model.folder())),
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

ModelQuality::Comparison ModelQuality::compare(std::span<const std::vector<uint8_t>> choices,
                                               const Progress& progress) {
  std::vector<Ablation> ablations;
  for (const std::vector<uint8_t>& kept : choices) ablations.push_back(without(kept));
  const SweepValues values = sweep_.run(ablations, progress);
  const std::vector<int64_t> tokens = by_text(sweep_.tokens(), set_.masks);
  const std::vector<double> base = by_text(std::span<const double>(values.base), set_.masks);
  const LossStatistic statistic(set_.task, tokens, set_.examples.all.scores);
  Comparison result{.labels = values.labels};
  if (scores_tokens(set_.task)) {
    result.tokens = std::accumulate(tokens.begin(), tokens.end(), int64_t{0});
  }
  const std::vector<float> all(model_.heads(), 1);
  result.before = quality(statistic.loss(base), values.labels, all, true, progress);
  for (size_t c = 0; c < choices.size(); ++c) {
    const std::vector<double> row = by_text(std::span<const double>(values.ablated[c]), set_.masks);
    Change& change = result.changes.emplace_back();
    if (!values.ablated_labels.empty()) change.labels = values.ablated_labels[c];
    change.quality =
        quality(statistic.loss(row), change.labels, gates_of(choices[c]), c == 0, progress);
    change.change = statistic.change(row, base);
    change.interval = interval_of(row, base, tokens, statistic);
  }
  return result;
}

std::optional<ConfidenceInterval> ModelQuality::interval_of(std::span<const double> values,
                                                            std::span<const double> base,
                                                            std::span<const int64_t> tokens,
                                                            const LossStatistic& statistic) const {
  std::vector<double> differences;
  std::vector<int64_t> scored;
  for (size_t x = 0; x < values.size(); ++x) {
    if (tokens[x] == 0) continue;
    differences.push_back(values[x] - base[x]);
    scored.push_back(tokens[x]);
  }
  if (std::ssize(scored) < kFewestForInterval) return std::nullopt;
  if (set_.task != LossTask::similarity)
    return estimate_ratio(differences, scored, kAlpha).interval;
  const std::vector<std::vector<double>> rows = {{values.begin(), values.end()}};
  return statistic.intervals(rows, base, kResamples, 0, kAlpha)[0];
}

ModelQuality::Outputs ModelQuality::outputs(std::span<const uint8_t> kept, int64_t examples,
                                            const Progress& progress) const {
  const TrainingBatch& all = set_.examples.all;
  const int64_t n = std::min(examples, set_.size()), each = set_.examples.texts_each;
  const std::vector<float> gates = gates_of(kept);
  const ForwardOptions options{.gates = {gates.data(), {1, model_.heads()}}};
  const bool labels = model_.config().task == Task::classify && !model_.config().regression &&
                      !model_.config().multi_label;
  Outputs outputs;
  for (int64_t begin = 0, end; begin < n; begin = end) {
    TokenBatch source, target;
    for (end = begin; end < n && (end == begin || source.rows() < kRowsAtOnce); ++end) {
      const int64_t x = end * set_.size() / n;
      add_text(all.source, x * each, source);  // of a pair the first
      if (all.target.sequences() > 0) add_text(all.target, x, target);
    }
    const Activations hidden = target.sequences() > 0 ? model_.forward(source, target, options)
                                                      : model_.forward(source, options);
    const TokenBatch& last = target.sequences() > 0 ? target : source;
    const Activations embeddings = pooling_.embed(hidden.rows, last.offsets);
    for (int64_t b = 0; b < end - begin; ++b) {
      const double norm = norm_of(embeddings.rows, b);
      std::vector<float>& row = outputs.embeddings.emplace_back();
      for (int64_t c = 0; c < embeddings.rows.extent(1); ++c) {
        row.push_back(static_cast<float>(embeddings.rows(b, c) / norm));
      }
    }
    if (labels) {
      const Activations output =
          model_.output(gather(hidden.rows, model_.output_rows(last.offsets)).rows);
      outputs.labels.resize(end);
      argmax(output.rows, std::span(outputs.labels).subspan(begin));
    }
    if (progress) progress(end, n);
  }
  return outputs;
}

/// Heads that the loss does not depend on change nothing.
Ablation ModelQuality::without(std::span<const uint8_t> kept) const {
  const bool decodes =
      !model_.config().encoder_decoder() || set_.examples.all.target.sequences() > 0;
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
  return !set_.references.empty() && model_.tokenizer() != nullptr ? "bleu" : "";
}

double ModelQuality::bleu(std::span<const float> gates, const Progress& progress) const {
  GenerateOptions options = translation_options(model_.folder(), model_.config());
  options.forward.gates = {gates.data(), {1, model_.heads()}};
  return translation_bleu(model_, set_.examples.all.source, options, *model_.tokenizer(),
                          set_.references, [&](int64_t done) {
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
