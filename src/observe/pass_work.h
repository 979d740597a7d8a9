// The multiply-adds of forward passes and of ablations, counted from shapes and numbers of tokens:
// the same on every machine and for every number of threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/evaluation.h"

namespace headwise {

/// Tokens of some examples.
struct WorkTokens {
  int64_t source = 0, target = 0;  // that the model reads
  int64_t read = 0;                // whose last hidden states the loss reads
  int64_t scored = 0;              // that go through the output layer

  WorkTokens& operator+=(const WorkTokens& other);
};

/// Blocks, the output layer on scored tokens, and the last feed-forward layer only where the loss
/// reads. Embeddings and norms are left out. Attention is counted at the mean length of a text.
class PassWork {
 public:
  /// With the mean lengths of texts; `target` 0: a decoder behind an encoder is not run.
  PassWork(const Model& model, LossTask task, double source, double target);
  PassWork(const Model& model, const EvaluationSet& set);

  /// The unchanged model.
  double whole(const WorkTokens& tokens) const;

  /// An ablation of these heads: what follows the first of their attentions. 0 for no heads, and
  /// for heads that are not run.
  double ablation(std::span<const int64_t> heads, const WorkTokens& tokens) const;

 private:
  /// Multiply-adds of a token in a stack.
  struct StackWork {
    std::vector<double> from;         // [L + 1], all blocks from a layer on
    std::vector<double> after_self;   // [L], what follows self attention, and all later blocks
    std::vector<double> after_cross;  // [L], likewise; empty: there is none
  };
  StackWork count(Side side, double queries, double keys, bool last) const;
  double output(const WorkTokens& tokens) const;

  const Model& model_;
  bool two_;  // encoder and decoder are run
  StackWork encoder_, decoder_;
  double last_feed_forward_ = 0, output_ = 0;  // of a token
};

}  // namespace headwise
