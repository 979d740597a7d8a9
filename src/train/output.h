// The output layer of a model in training, and its loss.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/train/trainable_model.h"
#include "model/attention_layer.h"
#include "model/layers.h"
#include "model/weight_names.h"
#include "train/parameter_list.h"

namespace headwise {

class TrainedOutput {
 public:
  struct Place {
    const ModelConfig& config;
    const std::string& prefix;
    const Embedding& word;  // that the output may be tied to
    bool fresh;             // the checkpoint has no such layer
    uint64_t& streams;
  };

  TrainedOutput(ParameterList& declare, const Place& place);

  /// Which rows of texts at `offsets` are scored. Throws Error for labels that do not fit.
  WantedRows choose(std::span<const int64_t> offsets, const TrainingBatch& batch);

  /// The loss of the hidden states [R, C] of these rows. dhidden [R, C], if there is one, is
  /// overwritten with their gradient; otherwise there are no gradients.
  Loss run(View<const float, 2> hidden, const PassOptions& options, View<float, 2> dhidden);

 private:
  struct Step {
    Linear dense;
    Activation activation;
    Norm norm;
    View<const float, 2> in{};
    Rows raw{}, activated{}, normed{}, d{};
  };

  void declare_bias(ParameterList& declare, const Place& place, const TaskNames& names);
  View<const float, 2> forward(View<const float, 2> hidden);
  /// d is dhidden if there are no steps.
  void backward(View<float, 2> d, View<float, 2> dhidden);
  Loss score_labels(View<const float, 2> x, View<float, 2> dx) const;
  Loss score_numbers(View<const float, 2> x, View<float, 2> dx);
  Dropout input_dropout() const;
  Dropout output_dropout() const;

  const ModelConfig* config_;
  TaskRows rows_ = TaskRows::all;
  int64_t outputs_ = 0;
  float scale_ = 1;
  std::vector<Step> steps_;
  const Embedding* tied_ = nullptr;
  Weights weight_, bias_;
  bool drops_input_ = false, drops_output_ = false;
  uint64_t input_stream_ = 0, output_stream_ = 0;

  // The last pass.
  const PassOptions* options_ = nullptr;
  std::vector<int64_t> chosen_;   // rows that are scored; none: all, or those with a target
  std::vector<int32_t> targets_;  // of these
  std::vector<float> expected_;   // likewise, in regression
  Rows dropped_, scaled_, dx_, scores_;
};

}  // namespace headwise
