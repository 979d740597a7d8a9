// A transformer that can be trained: every architecture that load() reads, with its loss and the
// gradients of all its weights, in float32.
//
// config.json describes it completely. Training writes a folder that transformers and load() read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/core/view.h"
#include "headwise/model/model.h"
#include "headwise/model/stored_tensor.h"
#include "headwise/train/batch.h"

namespace headwise {

/// A contiguous block of weights, the unit of the optimiser. Its name begins with the place in
/// the model: "embeddings.", "L3." or "enc.L3.", "dec.L3.", "cross.L3.", "output.".
struct Parameter {
  std::string name{};
  std::span<float> values{}, gradient{};
  bool decays = true;         // by AdamW; norms and biases do not
  bool requires_grad = true;  // false: frozen; its gradient is not computed
  bool grad_is_zero = false;  // Set by clear_gradients(). The first writer may overwrite instead of
                              // accumulate, and resets it.
  std::optional<double> rate{};  // its own, in place of the optimiser's
};

/// What a loaded folder is to be trained for. An output layer that the folder does not have is made
/// anew, from the seed.
struct TrainFor {
  Task task = Task::hidden;           // hidden: similarity of pairs
  std::vector<std::string> labels{};  // of classification; empty: those of the folder
  bool regression = false;            // classify: one score per text instead of labels
  uint64_t seed = 0;
};

/// Random weights, as transformers starts from.
struct Initialisation {
  uint64_t seed = 0;
  bool same_heads = false;  // all heads of an attention start equal
};

/// Learned head gates: hard concrete gates as in Voita et al. 2019. Training draws them; evaluation
/// and save use them without noise.
struct LearnedGates {
  double l0 = 0;              // weight of the expected number of gates above 0 in the loss
  bool train_weights = true;  // or only the gates
  double rate = 0.02;         // of the gates alone: some hundred steps from 1 to 0
};

struct PassOptions {
  float dropout = 0;            // of embeddings and residual branches
  float attention_dropout = 0;  // of attention weights
  float head_dropout = 0;       // of whole heads, drawn per text
  float label_smoothing = 0;
  uint64_t seed = 0;         // of this pass: what is dropped
  float gradient_scale = 1;  // gradients are those of this times the sum of losses
  bool balance = true;       // with the loss that spreads rows over routed heads

  /// [1, heads] or [B, heads], as in ForwardOptions; empty: all 1, or those that are learned.
  View<const float, 2> gates{};
  View<float, 2> dgates{};  // shaped as the gates, added to; empty: left out

  /// Called as in Model's passes; it must not change what it sees. After the last attention, rows
  /// that do not enter the loss are computed only for an observer that wants hidden states; sums
  /// over rows are then rounded differently.
  ForwardObserver* observer = nullptr;
};

/// Sums over what was scored: tokens, texts or pairs.
struct Loss {
  double loss = 0;  // what is minimised: with label smoothing, and the losses of routing and gates
  double nll = 0;   // without
  int64_t scored = 0;
  int64_t correct = 0;  // the label was the likeliest; 0 for scores
};

class TrainableModel {
 public:
  static TrainableModel load(const std::filesystem::path& folder, const TrainFor& what,
                             const LoadOptions& options = {});

  /// From the text of a config.json.
  static TrainableModel create(const std::string& config_json, const Initialisation& params);

  TrainableModel(TrainableModel&&) noexcept;
  TrainableModel& operator=(TrainableModel&&) noexcept;
  ~TrainableModel();

  /// Forward, loss and backward. Gradients are accumulated, or overwritten where `grad_is_zero`.
  /// The task decides the loss: cross entropy of tokens or labels; squared error of scores in
  /// regression; squared error of the cosine of pairs for hidden states, pooled as the folder says,
  /// or by their mean.
  Loss train(const TrainingBatch& batch, const PassOptions& options);

  /// Forward, and then backward as often as `next` gives a gradient of the last hidden states
  /// [T, C], of the decoder if there are targets: it fills dhidden and returns true. Gradients are
  /// added to each time, that of the penalty of learned gates once; labels are not read.
  using NextGradient = std::function<bool(View<const float, 2> hidden, View<float, 2> dhidden)>;
  void train_hidden(const TrainingBatch& batch, const PassOptions& options,
                    const NextGradient& next);

  /// What train does, without gradients.
  Loss evaluate(const TrainingBatch& batch, const PassOptions& options = {});

  /// Adds learned head gates as one more parameter.
  void learn_gates(const LearnedGates& params);

  /// The gates without noise, one per head; none if they are not learned.
  std::vector<float> learned_gates() const;

  /// The expected number of learned gates that are not 0, and another weight of it in the loss:
  /// below 0, gates open.
  double open_gates() const;
  void set_l0(double l0);

  /// Multiplies the learned gates into the output projections and stops learning them.
  void fold_gates();

  void clear_gradients();

  std::span<Parameter> parameters();
  std::span<const StoredTensor> tensors() const;

  /// For each head of the model, the norm of the gradient of its projections: query, key, value
  /// (of its group, if grouped) and output.
  std::vector<double> head_gradient_norms() const;

  const ModelConfig& config() const;
  const std::string& config_json() const;
  std::span<const AttentionSite> attentions() const;
  int64_t heads() const;  // of all attentions

  /// Writes config.json and model.safetensors, each whole or not at all; the folder is made if it
  /// is not there. Tensors keep the type that they had in the loaded folder. Of learned gates,
  /// heads at 0 are left out ("pruned_heads"), and others are multiplied into the output
  /// projections.
  void save(const std::filesystem::path& folder) const;

 private:
  struct Parts;
  explicit TrainableModel(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace headwise
