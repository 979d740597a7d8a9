// How good a model is without some of its heads.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/observe/evaluation.h"
#include "headwise/observe/evidence.h"
#include "observe/loss_sweep.h"
#include "observe/loss_table.h"

namespace headwise {

class ModelQuality {
 public:
  /// Work done so far and all of it. May throw to stop.
  using Progress = std::function<void(int64_t done, int64_t total)>;

  /// Both must outlive it. BLEU needs the model's tokenizer.
  ModelQuality(const Model& model, const EvaluationSet& set);

  struct Quality {
    double loss = 0;
    std::optional<double> score{};  // that the task has, if it was asked for
  };
  /// With each choice of heads [heads] kept, each measured once: what is measured is kept. Choices
  /// share the layers before the first head that they lose, and all of them one pass of the
  /// unchanged model. BLEU takes a translation of everything.
  std::vector<Quality> measure(std::span<const std::vector<uint8_t>> choices, bool scored,
                               const Progress& progress = {});

  /// What leaving heads out changes.
  struct Change {
    Quality quality{};
    double change = 0;                             // of the loss
    std::optional<ConfidenceInterval> interval{};  // 95 %, paired; none of fewer than 5 examples
    std::vector<int32_t> labels{};                 // classify
  };
  struct Comparison {
    Quality before{};
    int64_t tokens = 0;  // that are scored, of token losses
    std::vector<int32_t> labels{};
    std::vector<Change> changes{};  // of the choices
  };
  /// The model itself beside these choices. The masks of a text count as one example. Only `before`
  /// and the first choice are scored.
  Comparison compare(std::span<const std::vector<uint8_t>> choices, const Progress& progress = {});

  /// Pooled hidden states, and labels of classifiers, of the model with what is kept of its heads.
  struct Outputs {
    std::vector<std::vector<float>> embeddings{};  // of unit length
    std::vector<int32_t> labels{};                 // empty: the model says none
  };
  /// Of so many examples at most, evenly spaced.
  Outputs outputs(std::span<const uint8_t> kept, int64_t examples,
                  const Progress& progress = {}) const;

  /// What the score is; empty: the task has none.
  std::string score_name() const;

  /// [heads], what ablating each of those that are kept adds to the loss; NaN for the others, and
  /// for those that the loss does not look at.
  std::vector<double> changes(std::span<const uint8_t> kept, const Progress& progress = {}) const;

  const EvaluationSet& set() const { return set_; }

 private:
  using Choice = std::pair<std::vector<uint8_t>, bool>;  // what is kept, and whether it is scored

  void measure_new(const std::vector<Choice>& choices, const Progress& progress);
  Ablation without(std::span<const uint8_t> kept) const;
  std::optional<ConfidenceInterval> interval_of(std::span<const double> values,
                                                std::span<const double> base,
                                                std::span<const int64_t> tokens,
                                                const LossStatistic& statistic) const;
  /// `labels` are of classify.
  Quality quality(double loss, std::span<const int32_t> labels, std::span<const float> gates,
                  bool scored, const Progress& progress) const;
  double bleu(std::span<const float> gates, const Progress& progress) const;

  const Model& model_;
  const EvaluationSet& set_;
  SentencePooling pooling_;
  LossSweep sweep_;
  std::map<Choice, Quality> known_;
};

}  // namespace headwise
