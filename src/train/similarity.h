// The loss of sentence embeddings: the squared error of the cosine of pairs, as
// CosineSimilarityLoss of sentence-transformers has it.
#pragma once

#include <filesystem>

#include "headwise/model/sentence_embedding.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

class Similarity {
 public:
  /// By the mean of the hidden states.
  Similarity() : pooling_(SentencePooling::mean()) {}
  /// As modules.json of the folder says, if there is one. Throws Error for modules with weights.
  explicit Similarity(const std::filesystem::path& folder);

  /// The loss of hidden states [T, C]. dhidden [T, C], if there is one, is overwritten with their
  /// gradient. Throws Error unless the texts are pairs, each with a score and with tokens.
  Loss run(View<const float, 2> hidden, const TrainingBatch& batch, const PassOptions& options,
           View<float, 2> dhidden);

 private:
  SentencePooling pooling_;
};

}  // namespace headwise
