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
      pass_(model, {.gates = options_.gates, .rows_at_once = options_.rows_at_once}),
      work_(model, set) {
  unchanged_.known.resize(set.size());
  unchanged_.values.resize(set.size());
  if (set.task == LossTask::classify) unchanged_.labels.resize(set.size());
  for (const AttentionSite& site : model.attentions()) widest_ = std::max(widest_, site.value_dim);
  zeros_.resize(widest_);
}

std::span<const float> LossSweep::mean_output(int64_t head, const Progress& progress) {
  if (means_.empty()) measure_means(progress);
  return means_[head];
}

void LossSweep::measure_means(const Progress& progress) {
  HeadOutputMeans sums(model_);
  const ForwardOptions options{.observer = &sums};  // without gates, as mean_outputs does
  // All rows of the set count, also those of examples that are not scored.
  const TrainingBatch& all = scorer_.set().examples.all;
  const int64_t texts = all.source.sequences();
  for (int64_t begin = 0, end; begin < texts; begin = end) {
    TokenBatch source, target;
    for (end = begin; end < texts; ++end) {
      const int64_t more = all.source.offsets[end + 1] - all.source.offsets[end];
      if (end > begin && source.rows() + more > options_.rows_at_once) break;
      add_text(all.source, end, source);
      if (all.target.sequences() > 0) add_text(all.target, end, target);
    }
    (void)(target.sequences() > 0 ? model_.forward(source, target, options)
                                  : model_.forward(source, options));
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

bool LossSweep::knows(std::span<const int64_t> examples) const {
  const std::span<const int64_t> tokens = scorer_.tokens();
  return std::ranges::all_of(examples,
                             [&](int64_t x) { return unchanged_.known[x] != 0 || tokens[x] == 0; });
}

double LossSweep::work(std::span<const Ablation> ablations,
                       std::span<const int64_t> examples) const {
  WorkTokens tokens;
  for (const int64_t x : examples) tokens += scorer_.work_tokens(x);
  const double whole = work_.whole(tokens);
  double sum = 0, least = whole;  // the latest ablation has the least work
  for (const Ablation& ablation : ablations) {
    const double work = work_.ablation(ablation.heads, tokens);
    sum += work;
    if (work > 0) least = std::min(least, work);
  }
  return sum + (knows(examples) ? whole - least : whole);
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
        ran_(ablations.size()) {
    const size_t n = examples.size();
    values.base.resize(n);
    values.ablated.assign(ablations.size(), std::vector<double>(n));
    if (task_ == LossTask::classify) {
      values.labels.resize(n);
      values.ablated_labels.assign(ablations.size(), std::vector<int32_t>(n));
    }
    for (const auto& batch : batches_) {
      total_ += costs_.emplace_back(static_cast<int64_t>(sweep.work(ablations, batch)));
    }
  }

  void run(std::span<const Variant> variants) {
    for (size_t b = 0; b < batches_.size(); ++b) {
      run_batch(batches_[b], variants, costs_[b]);
      done_ += costs_[b];
      if (progress_) progress_(done_, total_);
    }
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

  void run_batch(const std::vector<int64_t>& numbers, std::span<const Variant> variants,
                 int64_t cost) {
    const LossBatch batch = scorer_.batch(numbers);
    places_.clear();
    for (const int64_t x : numbers) {
      while (examples_[at_] != x) ++at_;
      places_.push_back(at_++);
    }
    const bool known = sweep_.knows(numbers);
    std::vector<Waiting> waiting;
    int64_t taken = 0;
    const auto take = [&](const PatchedRows& rows) {
      if (task_ == LossTask::fidelity) {
        waiting.push_back({.variants = {rows.variants.begin(), rows.variants.end()},
                           .embeddings = scorer_.embed(rows),
                           .texts = rows.texts,
                           .by_text = rows.by_text});
      } else {
        store(rows.variants, scorer_.values(batch, rows));
      }
      if (task_ == LossTask::classify) store_labels(rows);
      taken += std::ssize(rows.variants);
      if (progress_) progress_(done_ + cost * taken / (std::ssize(variants) + 1), total_);
    };
    sweep_.pass_.run(
        {.source = batch.source, .target = batch.target, .rows = batch.rows, .unchanged = !known},
        variants, take);
    if (task_ == LossTask::fidelity) compare(batch, waiting, known);
    known ? recall(numbers) : keep(numbers);
  }

  /// Fidelity, from what waited.
  void compare(const LossBatch& batch, std::span<const Waiting> waiting, bool known) {
    if (!known) {
      // Under gates, the model with all its heads is another one.
      const bool gated = !sweep_.options_.gates.empty();
      keep_embeddings(batch.examples,
                      gated ? sweep_.reference(batch).rows : waiting.back().embeddings.rows);
    }
    const Activations reference = kept_embeddings(batch.examples);
    for (const Waiting& part : waiting) {
      const PatchedRows rows{
          .variants = part.variants, .texts = part.texts, .by_text = part.by_text};
      store(part.variants, scorer_.distances(part.embeddings.rows, reference.rows, rows));
    }
  }

  void keep_embeddings(std::span<const int64_t> examples, View<const float, 2> rows) {
    Unchanged& kept = sweep_.unchanged_;
    kept.width = rows.extent(1);
    kept.embeddings.resize(kept.known.size() * kept.width);
    for (size_t i = 0; i < examples.size(); ++i) {
      std::copy_n(&rows(i, 0), kept.width, &kept.embeddings[examples[i] * kept.width]);
    }
  }

  Activations kept_embeddings(std::span<const int64_t> examples) const {
    const Unchanged& kept = sweep_.unchanged_;
    Activations rows(std::ssize(examples), kept.width);
    for (size_t i = 0; i < examples.size(); ++i) {
      std::copy_n(&kept.embeddings[examples[i] * kept.width], kept.width, &rows.rows(i, 0));
    }
    return rows;
  }

  /// Values of the unchanged model, for later runs.
  void keep(std::span<const int64_t> examples) {
    Unchanged& kept = sweep_.unchanged_;
    for (size_t i = 0; i < examples.size(); ++i) {
      kept.known[examples[i]] = 1;
      kept.values[examples[i]] = values.base[places_[i]];
      if (!kept.labels.empty()) kept.labels[examples[i]] = values.labels[places_[i]];
    }
  }

  void recall(std::span<const int64_t> examples) {
    const Unchanged& kept = sweep_.unchanged_;
    for (size_t i = 0; i < examples.size(); ++i) {
      values.base[places_[i]] = kept.values[examples[i]];
      if (!kept.labels.empty()) values.labels[places_[i]] = kept.labels[examples[i]];
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
  void store_labels(const PatchedRows& rows) {
    const std::vector<int32_t> labels = scorer_.labels(rows.rows);
    for (size_t v = 0; v < rows.variants.size(); ++v) {
      const bool base = rows.variants[v] == kUnchanged;
      std::vector<int32_t>& to = base ? values.labels : values.ablated_labels[rows.variants[v]];
      for (size_t i = 0; i < places_.size(); ++i) {
        to[places_[i]] = labels[rows.sequence(static_cast<int64_t>(v), static_cast<int64_t>(i))];
      }
    }
  }

  LossSweep& sweep_;
  const ExampleScorer& scorer_;
  LossTask task_;
  std::span<const int64_t> examples_;
  const Progress& progress_;
  std::vector<std::vector<int64_t>> batches_;
  size_t at_ = 0;               // of the next batch among the examples, whose order batches keep
  std::vector<size_t> places_;  // of the batch's among the examples
  int64_t done_ = 0, total_ = 0;
  std::vector<int64_t> costs_;  // of batches
  std::vector<uint8_t> ran_;
};

double LossSweep::passes(std::span<const Ablation> ablations,
                         std::span<const int64_t> examples) const {
  return work(ablations, examples) / work_of_pass();
}

double LossSweep::work_of_pass() const {
  WorkTokens all;
  for (int64_t x = 0; x < size(); ++x) all += scorer_.work_tokens(x);
  return work_.whole(all);
}

Activations LossSweep::reference(const LossBatch& batch) const {
  const Activations hidden = batch.target.sequences() > 0
                                 ? model_.forward(batch.source, batch.target)
                                 : model_.forward(batch.source);
  const Activations some = gather(hidden.rows, batch.rows);
  std::vector<int64_t> offsets = {0};
  for (int64_t b = 0; b < batch.last().sequences(); ++b) {
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
