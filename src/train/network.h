// Passes through all layers of a model, forward and back.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/transformer.h"
#include "train/similarity.h"
#include "train/task_loss.h"

namespace headwise {

class Network {
 public:
  explicit Network(const Transformer& layers, Similarity similarity = {});

  /// Forward and loss, and backward if asked for.
  Loss run(const TrainingBatch& batch, const PassOptions& options, bool backward);

  /// Forward, and backward from each gradient of the last hidden states that `next` gives.
  void run_hidden(const TrainingBatch& batch, const PassOptions& options,
                  const TrainableModel::NextGradient& next);

 private:
  /// A pass on its way forward.
  struct Forward {
    bool two = false;                   // encoder and decoder
    const Stack* last = nullptr;        // whose hidden states count
    const TokenBatch* texts = nullptr;  // of that
    View<float, 2> dsource{};           // of the encoder's hidden states, if they are trained
    View<float, 2> hidden{};
  };

  void check(const TrainingBatch& batch, const PassOptions& options, bool two) const;
  Forward forward(const TrainingBatch& batch, const PassOptions& options, bool two, bool backward,
                  TaskLoss* loss);
  /// dhidden is used up.
  void backward(const Forward& pass, View<float, 2> dhidden, double balance_scale);

  const Transformer& layers_;
  std::unique_ptr<TaskLoss> loss_;  // none: that of hidden states
  Similarity similarity_;
  // The last pass.
  ForwardOptions forward_options_;
  Stack::Tape encoder_tape_, tape_;  // tape_: of the stack whose hidden states count
  BlockScratch scratch_;
  Rows dhidden_, dsource_;
};

}  // namespace headwise
