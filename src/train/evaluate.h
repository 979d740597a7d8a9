// How good a model is on examples: loss and accuracy, and BLEU of what it translates.
#pragma once

#include <filesystem>
#include <functional>

#include "headwise/text/tokenizer.h"
#include "headwise/train/examples.h"
#include "headwise/train/settings.h"
#include "headwise/train/trainable_model.h"
#include "headwise/train/trainer.h"

namespace headwise {

/// Evaluates a model as the settings of its training say.
class Evaluator {
 public:
  /// All must outlive it. `check` is called for every batch, and may throw to stop.
  Evaluator(const TrainSettings& settings, TrainableModel& model, const Tokenizer& tokenizer,
            std::function<void()> check)
      : settings_(settings), model_(model), tokenizer_(tokenizer), check_(std::move(check)) {}

  /// Loss and accuracy.
  Evaluation operator()(const Examples& examples) const;

  /// BLEU of the translations of the model as it is saved in `saved`. `files` are those that the
  /// examples were read from.
  double bleu(const Examples& examples, const DataFiles& files,
              const std::filesystem::path& saved) const;

 private:
  const TrainSettings& settings_;
  TrainableModel& model_;
  const Tokenizer& tokenizer_;
  std::function<void()> check_;
};

}  // namespace headwise
