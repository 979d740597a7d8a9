// The output layer of a model: what it does to hidden states, and to which of them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "model/layers.h"
#include "model/weight_names.h"
#include "model/weight_reader.h"

namespace headwise {

/// The columns of the output of its task; 0: hidden states.
int64_t outputs_of(const ModelConfig& config);

/// The tensors of the last layer of an output.
struct OutputTensors {
  const TensorInfo* weight = nullptr;  // [outputs, width]
  const TensorInfo* bias = nullptr;    // or none
  bool tied = false;                   // the weight is the embedding of tokens
};

/// `word` is the embedding that it may be tied to.
OutputTensors take_output(const ModelConfig& config, const TaskNames& names, int64_t width,
                          const TensorInfo* word, WeightReader& reader);

class TaskHead {
 public:
  TaskHead() = default;
  /// `word` is the embedding that the output may be tied to.
  TaskHead(const ModelConfig& config, const std::string& prefix, const Embedding& word,
           WeightReader& reader);

  /// Sentence encoders are often saved without the output layer of the masked language model that
  /// their config still names.
  static bool was_saved(const ModelConfig& config, const std::string& prefix,
                        const WeightReader& reader);

  Activations forward(View<const float, 2> hidden) const;
  /// -log softmax(forward(hidden))[targets] of each row.
  void losses(View<const float, 2> hidden, std::span<const int32_t> targets,
              std::span<double> losses) const;
  std::vector<int64_t> rows(std::span<const int64_t> offsets) const;

  /// Of language models whose output is one product: the rows of its matrix for these tokens, minus
  /// the mean row.
  Activations beside_mean(std::span<const int32_t> tokens) const;
  int64_t width() const { return output_.outputs(); }

 private:
  struct Step {
    Linear dense;
    Activation activation;
    Norm norm;
  };

  /// What the last layer reads: `hidden` itself, or what `held` then has.
  View<const float, 2> prepare(View<const float, 2> hidden, Activations& held) const;

  TaskRows rows_ = TaskRows::all;
  float scale_ = 1;
  std::vector<Step> steps_;
  Linear output_;
  Embedding table_;  // of causal LMs: the matrix of output_, as it is stored
};

}  // namespace headwise
