// The losses of examples under many ablations, in as few passes as they need.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/observe/evaluation.h"
#include "model/variant_pass.h"
#include "observe/loss_batch.h"

namespace headwise {

/// Heads that are closed together.
struct Ablation {
  std::vector<int64_t> heads{};  // among all heads of the model
  bool mean = false;             // they say their mean instead of nothing
};

/// Values of examples, as ExampleScorer has them; NaN where there are none.
struct SweepValues {
  std::vector<double> base{};                  // [examples] of the model itself
  std::vector<std::vector<double>> ablated{};  // [ablations][examples]
  std::vector<int32_t> labels{};               // [examples], classify: what the model itself says
  std::vector<std::vector<int32_t>> ablated_labels{};  // [ablations][examples], likewise
};

class LossSweep {
 public:
  struct Options {
    std::vector<float> gates{};  // [heads] of the model itself; empty: all 1
    int64_t batch_rows = 512;    // of examples that are run together
    int64_t rows_at_once = 2048;
  };
  /// Work done so far and all of it, in any unit. May throw to stop.
  using Progress = std::function<void(int64_t done, int64_t total)>;

  /// All but the options must outlive it. Throws Error if the examples do not fit the model.
  LossSweep(const Model& model, const SentencePooling& pooling, const EvaluationSet& set,
            Options options);

  /// Of these examples, by their numbers in the set.
  SweepValues run(std::span<const Ablation> ablations, std::span<const int64_t> examples,
                  const Progress& progress = {});

  /// Of all examples.
  SweepValues run(std::span<const Ablation> ablations, const Progress& progress = {});

  /// The work of these ablations in passes of the unchanged model over all examples. Counted in
  /// blocks and tokens, so that it is the same for every machine and number of threads. The run of
  /// the unchanged model over the same examples is included.
  double passes(std::span<const Ablation> ablations, std::span<const int64_t> examples) const;

  /// What every head says in the mean over all rows of the set; computed once.
  std::span<const float> mean_output(int64_t head, const Progress& progress = {});

  const ExampleScorer& scorer() const { return scorer_; }
  int64_t size() const { return scorer_.set().size(); }

 private:
  class Filling;
  std::vector<Variant> variants_of(std::span<const Ablation> ablations, const Progress& progress);
  int64_t layers() const;
  int64_t cost(const Ablation& ablation) const;
  void measure_means(const Progress& progress);
  Activations reference(const LossBatch& batch) const;

  const Model& model_;
  ExampleScorer scorer_;
  Options options_;
  VariantPass pass_;
  int64_t widest_ = 0;
  std::vector<float> zeros_;
  std::vector<std::vector<float>> means_;  // [heads], or none yet
};

}  // namespace headwise
