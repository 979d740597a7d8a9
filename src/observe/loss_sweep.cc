// Runs ablations as variants of a model, batch by batch.
#include "observe/loss_sweep.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/nan.h"
#include "headwise/observe/mean_ablation.h"
#include "model/stack_layout.h"

namespace headwise {
LossSweep::LossSweep(const Model& model, const SentencePooling& pooling, const EvaluationSet& set,
                     Options options)
    : model_(model),
      scorer_(model, pooling, set),
      options_(std::move(options)),
      pass_(model, {.gates = options_.gates, .rows_at_once = options_.rows_at_once}) {
  for (const AttentionSite& site : model.attentions()) widest_ = std::max(widest_, site.value_dim);
  zeros_.resize(widest_);
}

std::span<const float> LossSweep::mean_output(int64_t head, const Progress& progress) {
  if (means_.empty()) measure_means(progress);
  return means_[head];
}

void LossSweep::measure_means(const Progress& progress) {
  HeadOutputMeans sums(model_);
  ForwardOptions options{.observer = &sums};
  if (!options_.gates.empty()) options.gates = {options_.gates.data(), {1, model_.heads()}};
  // All rows of the set count, also those of examples that are not scored.
  const TrainingBatch& all = scorer_.set().examples.all;
  const int64_t texts = all.source.texts();
  for (int64_t begin = 0, end; begin < texts; begin = end) {
    TokenBatch source, target;
    for (end = begin; end < texts; ++end) {
      const int64_t more = all.source.offsets[end + 1] - all.source.offsets[end];
      if (end > begin && source.rows() + more > options_.rows_at_once) break;
      add_text(all.source, end, source);
      if (all.target.texts() > 0) add_text(all.target, end, target);
    }
    (void)(target.texts() > 0 ? model_.hidden(source, target, options)
                              : model_.hidden(source, options));
    if (progress) progress(end, texts);
  }
  means_ = sums.means();
}

std::vector<Variant> LossSweep::variants_of(std::span<const Ablation> ablations,
                                            const Progress& progress) {
  std::vector<Variant> variants;
  for (const Ablation& ablation : ablations) {
    Variant& variant = variants.emplace_back();
    for (const int64_t head : ablation.heads) {
      const std::span<const float> output =
          ablation.mean ? mean_output(head, progress)
                        : std::span<const float>(zeros_).first(
                              site_of_head(model_.attentions(), head)->value_dim);
      variant.push_back({.head = head, .output = output});
    }
  }
  return variants;
}

int64_t LossSweep::layers() const {
  return model_.config().encoder.layers() + model_.config().decoder.layers();
}

/// The blocks that are left from the first of its heads on.
int64_t LossSweep::cost(const Ablation& ablation) const {
  const int64_t encoder = model_.config().encoder.layers();
  int64_t most = 0;
  for (const int64_t head : ablation.heads) {
    const AttentionSite& site = *site_of_head(model_.attentions(), head);
    most = std::max(most, layers() - site.layer - (site.side == Side::decoder ? encoder : 0));
  }
  return most;
}

/// What is being filled in, batch by batch.
class LossSweep::Filling {
 public:
  Filling(LossSweep& sweep, std::span<const Ablation> ablations, std::span<const int64_t> examples,
          const Progress& progress)
      : sweep_(sweep),
        scorer_(sweep.scorer_),
        task_(scorer_.set().task),
        examples_(examples),
        progress_(progress),
        batches_(scorer_.cut(examples, sweep.options_.batch_rows)),
        base_cost_(sweep.layers()),
        ran_(ablations.size()) {
    const size_t n = examples.size();
    values.base.resize(n);
    values.ablated.assign(ablations.size(), std::vector<double>(n));
    if (task_ == LossTask::classify) {
      values.labels.resize(n);
      values.ablated_labels.assign(ablations.size(), std::vector<int32_t>(n));
    }
    int64_t each = base_cost_;
    for (const Ablation& ablation : ablations) each += costs_.emplace_back(sweep.cost(ablation));
    for (const auto& batch : batches_) total_ += std::ssize(batch) * each;
  }

  void run(std::span<const Variant> variants) {
    for (const std::vector<int64_t>& numbers : batches_) run_batch(numbers, variants);
    for (size_t a = 0; a < variants.size(); ++a) {
      if (variants[a].empty()) {
        values.ablated[a] = values.base;
        if (task_ == LossTask::classify) values.ablated_labels[a] = values.labels;
      } else if (ran_[a] == 0 && !batches_.empty()) {
        std::ranges::fill(values.ablated[a], kNaN);
      }
    }
  }

  SweepValues values;

 private:
  /// Embeddings that wait for those of the model itself.
  struct Waiting {
    std::vector<int64_t> variants;
    Activations embeddings;
    int64_t texts;
    bool by_text;
  };

  void run_batch(const std::vector<int64_t>& numbers, std::span<const Variant> variants) {
    const LossBatch batch = scorer_.batch(numbers);
    places_.clear();
    for (const int64_t x : numbers) {
      while (examples_[at_] != x) ++at_;
      places_.push_back(at_++);
    }
    std::vector<Waiting> waiting;
    const auto take = [&](const VariantRows& rows) {
      if (task_ == LossTask::fidelity) {
        waiting.push_back({.variants = {rows.variants.begin(), rows.variants.end()},
                           .embeddings = scorer_.embed(rows),
                           .texts = rows.texts,
                           .by_text = rows.by_text});
      } else {
        store(rows.variants, scorer_.values(batch, rows));
      }
      if (task_ == LossTask::classify) store_labels(rows);
      count(rows.variants);
    };
    sweep_.pass_.run({.source = batch.source, .target = batch.target, .rows = batch.rows}, variants,
                     take);
    if (task_ != LossTask::fidelity) return;
    // Under gates, the model with all its heads is another one.
    const bool gated = !sweep_.options_.gates.empty();
    const Activations with_all = gated ? sweep_.reference(batch) : Activations();
    const View<const float, 2> reference = gated ? with_all.rows : waiting.back().embeddings.rows;
    for (const Waiting& part : waiting) {
      const VariantRows rows{
          .variants = part.variants, .texts = part.texts, .by_text = part.by_text};
      store(part.variants, scorer_.distances(part.embeddings.rows, reference, rows));
    }
  }

  void store(std::span<const int64_t> variants, std::span<const double> computed) {
    for (size_t v = 0; v < variants.size(); ++v) {
      const bool base = variants[v] == kUnchanged;
      std::vector<double>& to = base ? values.base : values.ablated[variants[v]];
      for (size_t i = 0; i < places_.size(); ++i) to[places_[i]] = computed[v * places_.size() + i];
      if (!base) ran_[variants[v]] = 1;
    }
  }

  /// The output has one row per sequence.
  void store_labels(const VariantRows& rows) {
    const std::vector<int32_t> labels = scorer_.labels(rows.rows);
    for (size_t v = 0; v < rows.variants.size(); ++v) {
      const bool base = rows.variants[v] == kUnchanged;
      std::vector<int32_t>& to = base ? values.labels : values.ablated_labels[rows.variants[v]];
      for (size_t i = 0; i < places_.size(); ++i) {
        to[places_[i]] = labels[rows.sequence(static_cast<int64_t>(v), static_cast<int64_t>(i))];
      }
    }
  }

  void count(std::span<const int64_t> variants) {
    for (const int64_t v : variants) {
      done_ += (v == kUnchanged ? base_cost_ : costs_[v]) * std::ssize(places_);
    }
    if (progress_) progress_(done_, total_);
  }

  LossSweep& sweep_;
  const ExampleScorer& scorer_;
  LossTask task_;
  std::span<const int64_t> examples_;
  const Progress& progress_;
  std::vector<std::vector<int64_t>> batches_;
  size_t at_ = 0;               // of the next batch among the examples, whose order batches keep
  std::vector<size_t> places_;  // of the batch's among the examples
  int64_t base_cost_, done_ = 0, total_ = 0;
  std::vector<int64_t> costs_;
  std::vector<uint8_t> ran_;
};

double LossSweep::passes(std::span<const Ablation> ablations,
                         std::span<const int64_t> examples) const {
  const Examples& all = scorer_.set().examples;
  int64_t some = 0;
  for (const int64_t x : examples) some += all.tokens(x);
  int64_t blocks = layers();
  for (const Ablation& ablation : ablations) blocks += cost(ablation);
  return static_cast<double>(blocks) * static_cast<double>(some) /
         (static_cast<double>(layers()) *
          static_cast<double>(all.all.source.rows() + all.all.target.rows()));
}

Activations LossSweep::reference(const LossBatch& batch) const {
  const Activations hidden = batch.target.texts() > 0 ? model_.hidden(batch.source, batch.target)
                                                      : model_.hidden(batch.source);
  const Activations some = gather(hidden.rows, batch.rows);
  std::vector<int64_t> offsets = {0};
  for (int64_t b = 0; b < batch.last().texts(); ++b) {
    const auto end = std::ranges::lower_bound(batch.rows, batch.last().offsets[b + 1]);
    offsets.push_back(end - batch.rows.begin());
  }
  return scorer_.embed({.rows = some.rows, .offsets = offsets});
}

SweepValues LossSweep::run(std::span<const Ablation> ablations, std::span<const int64_t> examples,
                           const Progress& progress) {
  const std::vector<Variant> variants = variants_of(ablations, progress);
  Filling filling(*this, ablations, examples, progress);
  filling.run(variants);
  return std::move(filling.values);
}

SweepValues LossSweep::run(std::span<const Ablation> ablations, const Progress& progress) {
  std::vector<int64_t> all(scorer_.set().size());
  std::iota(all.begin(), all.end(), 0);
  return run(ablations, all, progress);
}

}  // namespace headwise
