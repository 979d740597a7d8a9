// All layers of a model in training, and a pass through them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/stack.h"
#include "train/output.h"
#include "train/similarity.h"

namespace headwise {

class Network {
 public:
  struct Options {
    std::string prefix{};  // of the base model's tensors
    bool fresh = false;    // the output layer is not in the checkpoint
  };

  Network(const ModelConfig& config, ParameterList& declare, const Options& options,
          Similarity similarity);

  /// Forward and loss, and backward if asked for.
  Loss run(const TrainingBatch& batch, const PassOptions& options, bool backward);

  /// Forward, and backward from each gradient of the last hidden states that `next` gives.
  void run_hidden(const TrainingBatch& batch, const PassOptions& options,
                  const TrainableModel::NextGradient& next);

  std::span<const AttentionSite> sites() const { return sites_; }
  std::vector<const AttentionLayer*> attentions() const;  // in the order of the sites

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
                  TrainedOutput* output);
  /// dhidden is used up.
  void backward(const Forward& pass, View<float, 2> dhidden, double balance_scale);

  const ModelConfig& config_;
  std::vector<AttentionSite> sites_;
  Stack encoder_, decoder_;
  std::unique_ptr<TrainedOutput> output_;  // none: hidden states
  Similarity similarity_;
  // The last pass.
  ForwardOptions forward_options_;
  Stack::Tape encoder_tape_, tape_;  // tape_: of the stack whose hidden states count
  BlockScratch scratch_;
  Rows dhidden_, dsource_;
};

}  // namespace headwise
