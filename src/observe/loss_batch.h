// Examples of an evaluation as batches, and what their losses are made from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/observe/evaluation.h"
#include "model/patched_forward.h"
#include "observe/pass_work.h"

namespace headwise {

/// Appends a text of one batch to another one.
void add_text(const TokenBatch& from, int64_t text, TokenBatch& to);

/// Throws Error unless a model has the output that a loss is of.
void check_output(LossTask task, const ModelConfig& config);

struct LossBatch {
  std::vector<int64_t> examples{};
  TokenBatch source{}, target{};
  std::vector<int64_t> rows{};     // of the last hidden states, that are looked at
  std::vector<int32_t> targets{};  // what the output is to be at each of them, where it is scored

  const TokenBatch& last() const { return target.sequences() > 0 ? target : source; }
};

/// Values of examples: the sum of losses over tokens, the loss, or for similarity the cosine.
class ExampleScorer {
 public:
  /// All must outlive it. Throws Error if the examples do not fit the model.
  ExampleScorer(const Model& model, const SentencePooling& pooling, const EvaluationSet& set);

  /// [examples], how many tokens of each are scored; 1 for other losses.
  std::span<const int64_t> tokens() const { return tokens_; }

  /// What of an example is run.
  WorkTokens work_tokens(int64_t example) const;

  /// Cuts examples into batches of about so many rows. Those without tokens that are scored are
  /// left out.
  std::vector<std::vector<int64_t>> cut(std::span<const int64_t> examples, int64_t rows) const;
  LossBatch batch(std::span<const int64_t> examples) const;

  /// values[v * examples of the batch + i] for variant v. Not of fidelity.
  std::vector<double> values(const LossBatch& batch, const PatchedRows& rows) const;

  /// Fidelity is made from embeddings [V * B, E] and those of the model as it is, [B, E].
  Activations embed(const PatchedRows& rows) const;
  std::vector<double> distances(View<const float, 2> embeddings, View<const float, 2> reference,
                                const PatchedRows& rows) const;

  /// The likeliest label of each text.
  std::vector<int32_t> labels(View<const float, 2> rows) const;

  const EvaluationSet& set() const { return set_; }

 private:
  void check() const;
  int64_t rows_of(int64_t example) const;
  int64_t rows_read(int64_t example) const;
  bool stands_alone(int64_t example) const;
  void add_rows(LossBatch& batch) const;

  const Model& model_;
  const SentencePooling& pooling_;
  const EvaluationSet& set_;
  std::vector<int64_t> tokens_;
};

/// The length of row i, at least 1e-12: others are divided by it.
double norm_of(View<const float, 2> x, int64_t i);

/// 1 - cosine of row i of a and row j of b, also where it is close to 0: ½ |a/|a| - b/|b||².
double cosine_distance(View<const float, 2> a, int64_t i, View<const float, 2> b, int64_t j);

}  // namespace headwise
