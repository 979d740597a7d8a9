// The output layer of a model: what it does to hidden states, and to which of them. It runs, and is
// trained with a tape.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "model/attention_layer.h"
#include "model/layers.h"
#include "model/weight_names.h"
#include "model/weight_source.h"

namespace headwise {

/// The columns of the output of its task; 0: hidden states.
int64_t outputs_of(const ModelConfig& config);

/// The tensors of the last layer of an output.
struct OutputTensors {
  std::string weight{};         // [outputs, width]
  bool tied = false;            // which is then the embedding of tokens
  std::string bias{};           // [outputs]; empty: none
  bool bias_is_buffer = false;  // that is a row [1, outputs], and not trained

  // A tensor that a checkpoint may have beside the bias: of the same numbers, or of no use.
  std::string beside_bias{};
  bool same_as_bias = false;
};

/// `fresh`: of a new output layer, which the checkpoint does not have.
OutputTensors output_tensors(const ModelConfig& config, const TaskNames& names,
                             const HasTensor& has, bool fresh);

class TaskHead {
 public:
  struct Place {
    const ModelConfig& config;
    const std::string& prefix;  // of the base model's tensors
    const Embedding& word;      // that the output may be tied to
    uint64_t& streams;          // of random numbers: the next one that is free
    bool fresh = false;         // the checkpoint has no such layer
  };
  /// What backward needs of a pass.
  struct Tape {
    struct Step {
      View<const float, 2> in;
      Rows raw, activated, normed, d;
    };
    PassDropout drop;
    std::span<const int64_t> rows;  // of the pass that are scored; none: all
    std::vector<Step> steps;
    Rows dropped, scaled;
  };

  TaskHead() = default;
  TaskHead(WeightSource& source, const Place& place);

  /// Sentence encoders are often saved without the output layer of the masked language model that
  /// their config still names.
  static bool was_saved(const ModelConfig& config, const std::string& prefix,
                        const WeightSource& source);

  Activations forward(View<const float, 2> hidden) const;
  /// -log softmax(forward(hidden))[targets] of each row.
  void losses(View<const float, 2> hidden, std::span<const int32_t> targets,
              std::span<double> losses) const;
  std::vector<int64_t> rows(std::span<const int64_t> offsets) const;

  /// Of language models whose output is one product: the rows of its matrix for these tokens, minus
  /// the mean row.
  Activations beside_mean(std::span<const int32_t> tokens) const;
  int64_t width() const { return weight_ == nullptr ? 0 : weight_->rows(); }

  /// With a tape, which has dropout and rows: what the last layer reads, in the tape, or `hidden`
  /// itself.
  View<const float, 2> forward(View<const float, 2> hidden, Tape& tape) const;
  /// d, the gradient of what forward gave, is used up, and dhidden overwritten. Both are the same
  /// if has_steps() is false.
  void backward(View<float, 2> d, View<float, 2> dhidden, Tape& tape) const;
  bool has_steps() const { return !steps_.empty(); }

  // The last layer.
  const Weights& weight() const { return *weight_; }
  const Weights& bias() const { return bias_; }
  TaskRows task_rows() const { return rows_; }

 private:
  struct Step {
    Linear dense;
    Activation activation;
    Norm norm;
  };

  /// What the last layer reads: `hidden` itself, or what `held` then has.
  View<const float, 2> prepare(View<const float, 2> hidden, Activations& held) const;
  Dropout dropout_of(bool drops, uint64_t stream, const Tape& tape) const;

  TaskRows rows_ = TaskRows::all;
  float scale_ = 1;
  std::vector<Step> steps_;
  std::shared_ptr<const Weights> weight_;  // in training, the embedding's if they are tied
  Weights bias_;                           // or none
  Embedding table_;                        // of causal LMs: the weight as rows
  bool drops_input_ = false, drops_output_ = false;
  uint64_t input_stream_ = 0, output_stream_ = 0;
};

}  // namespace headwise
