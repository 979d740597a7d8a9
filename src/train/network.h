// All layers of a model in training, and a pass through them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/output.h"
#include "train/similarity.h"
#include "train/stack.h"

namespace headwise {

class Network {
 public:
  struct Options {
    std::string prefix{};  // of the base model's tensors
    InitStd init_std{};
    bool fresh = false;  // the output layer is not in the checkpoint
  };

  Network(const ModelConfig& config, ParameterList& declare, const Options& options,
          Similarity similarity);

  /// Forward and loss, and backward if asked for.
  Loss run(const TrainingBatch& batch, const PassOptions& options, bool backward);

  /// Forward, and backward from each gradient of the last hidden states that `next` gives.
  void run_hidden(const TrainingBatch& batch, const PassOptions& options,
                  const TrainableModel::NextGradient& next);

  std::span<const AttentionSite> sites() const { return sites_; }
  std::vector<TrainedAttention*> attentions() const;  // in the order of the sites

 private:
  /// A pass on its way forward.
  struct Forward {
    bool two = false;                   // encoder and decoder
    TrainedStack* last = nullptr;       // whose hidden states count
    const TokenBatch* texts = nullptr;  // of that
    TrainedStack::Source source{};
    View<float, 2> hidden{};
  };

  void check(const TrainingBatch& batch, const PassOptions& options, bool two) const;
  Forward forward(const TrainingBatch& batch, const PassOptions& options, bool two, bool backward,
                  TrainedOutput* output);
  /// dhidden is used up.
  void backward(Forward& pass, View<float, 2> dhidden, double balance_scale);

  const ModelConfig& config_;
  std::vector<AttentionSite> sites_;
  std::unique_ptr<TrainedStack> encoder_, decoder_;
  std::unique_ptr<TrainedOutput> output_;  // none: hidden states
  Similarity similarity_;
  TrainedBlock::Scratch scratch_;
  Rows dhidden_, dsource_;
};

}  // namespace headwise
