// The losses of examples under many ablations, in as few passes as they need.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/observe/evaluation.h"
#include "model/patched_forward.h"
#include "observe/loss_batch.h"
#include "observe/pass_work.h"

namespace headwise {

/// Heads that are ablated together.
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

/// Where values of examples come from, by their numbers.
class LossSource {
 public:
  /// Work done so far and all of it, in any unit. May throw to stop.
  using Progress = std::function<void(int64_t done, int64_t total)>;

  virtual ~LossSource() = default;

  virtual LossTask task() const = 0;
  virtual std::span<const int64_t> tokens() const = 0;  // [examples] that are scored
  virtual std::span<const float> gold() const = 0;      // [examples], similarity; else empty

  virtual SweepValues run(std::span<const Ablation> ablations, std::span<const int64_t> examples,
                          const Progress& progress) = 0;

  /// The work that `run` would do now, in passes of the unchanged model over all examples.
  virtual double passes(std::span<const Ablation> ablations,
                        std::span<const int64_t> examples) const = 0;
  /// Of the unchanged model over all examples, in a unit that sources of one model share.
  virtual double work_of_pass() const = 0;

  int64_t size() const { return std::ssize(tokens()); }
};

/// What the unchanged model gave is kept: later runs over the same examples compute of it only what
/// their ablations start from.
class LossSweep : public LossSource {
 public:
  struct Options {
    std::vector<float> gates{};  // [heads] of the model itself; empty: all 1
    int64_t batch_rows = 512;    // of examples that are run together
    int64_t rows_at_once = 2048;
  };
  /// All but the options must outlive it. Throws Error if the examples do not fit the model.
  LossSweep(const Model& model, const SentencePooling& pooling, const EvaluationSet& set,
            Options options);

  LossTask task() const override { return scorer_.set().task; }
  std::span<const int64_t> tokens() const override { return scorer_.tokens(); }
  std::span<const float> gold() const override { return scorer_.set().examples.all.scores; }

  /// Of these examples, by their numbers in the set.
  SweepValues run(std::span<const Ablation> ablations, std::span<const int64_t> examples,
                  const Progress& progress = {}) override;

  /// Of all examples.
  SweepValues run(std::span<const Ablation> ablations, const Progress& progress = {});

  /// See PassWork. What is needed of the unchanged model is included.
  double passes(std::span<const Ablation> ablations,
                std::span<const int64_t> examples) const override;
  double work_of_pass() const override;

  /// What every head says in the mean over all rows of the set, from the model with all gates 1;
  /// computed once.
  std::span<const float> mean_output(int64_t head, const Progress& progress = {});

  const ExampleScorer& scorer() const { return scorer_; }

 private:
  class Filling;

  /// What the unchanged model gave, by example.
  struct Unchanged {
    std::vector<uint8_t> known{};
    std::vector<double> values{};
    std::vector<int32_t> labels{};    // classify
    std::vector<float> embeddings{};  // fidelity: [examples, width], of the model with all heads
    int64_t width = 0;
  };

  std::vector<Variant> variants_of(std::span<const Ablation> ablations, const Progress& progress);
  bool knows(std::span<const int64_t> examples) const;
  double work(std::span<const Ablation> ablations, std::span<const int64_t> examples) const;
  void measure_means(const Progress& progress);
  Activations reference(const LossBatch& batch) const;

  const Model& model_;
  ExampleScorer scorer_;
  Options options_;
  PatchedForward pass_;
  PassWork work_;
  Unchanged unchanged_;
  int64_t widest_ = 0;
  std::vector<float> zeros_;
  std::vector<std::vector<float>> means_;  // [heads], or none yet
};

}  // namespace headwise
