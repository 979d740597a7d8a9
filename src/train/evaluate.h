// How good a model is on examples: loss and accuracy, and BLEU of what it translates.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "headwise/text/tokenizer.h"
#include "headwise/train/examples.h"
#include "headwise/train/trainable_model.h"
#include "headwise/train/trainer.h"

namespace headwise {

struct EvaluateOptions {
  int64_t tokens = 2000;  // of a batch
  uint64_t seed = 0;      // of what masked LM hides: the same in every evaluation
  bool has_accuracy = true;
  std::function<void()> check{};  // called for every batch; may throw to stop
};

/// Loss and accuracy.
Evaluation evaluate(TrainableModel& model, const Examples& examples,
                    const EvaluateOptions& options);

struct BleuOptions {
  int64_t beams = 5;
  int64_t length = 128;  // the most tokens of a translation
  std::function<void()> check{};
};

/// BLEU of a saved model's translations of the examples; `references` is a file with a line each.
double translation_bleu(const std::filesystem::path& folder, const Tokenizer& tokenizer,
                        const Examples& examples, const std::filesystem::path& references,
                        const BleuOptions& options);

}  // namespace headwise
