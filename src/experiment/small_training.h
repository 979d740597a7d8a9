// Trainings of seconds, for claims about what heads learn: two tasks, and models small enough to be
// trained many times.
//
// relations: sequences of keys with values, every key twice. At the second time of a key the model
//   says four values at once, as one of V^4 classes: that of the same key before, of the token
//   before, of the one before that, and of the first token. So a row needs four tokens at once, and
//   must know which is which.
// text: the next character of a text.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "experiment/experiment_kind.h"
#include "headwise/train/examples.h"
#include "headwise/train/fine_tune.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

inline constexpr auto kRelations =
    std::to_array<const char*>({"same key", "previous", "one before", "first"});

struct SmallTask {
  std::string name{};
  Examples train{}, validation{};
  int64_t vocabulary = 0, positions = 0;

  /// relations: the row of `validation` that each relation leads to, for the rows that are scored
  /// and lead to four different tokens; -1 for others. [relation][row]
  std::array<std::vector<int64_t>, kRelations.size()> sources{};
};

/// {"kind": "relations", "keys", "values", "sequences", "validation"}, or {"kind": "text", "file",
/// "length", "sequences", "validation"}. Always the same examples.
SmallTask small_task(const std::string& name, const nlohmann::json& settings,
                     TrialContext& context);

/// Some examples of `from`, in its order.
Examples part_of(const Examples& from, int64_t begin, int64_t count);

/// A GPT-2 for a task: {"width", "layers", "heads", "feed_forward", "init", and, unless the width
/// divided by the heads, "head_dim", "value_dim"}.
std::string small_config(const SmallTask& task, const nlohmann::json& model);

int64_t parameters_of(TrainableModel& model);

/// What a trial of this number starts from, and the order of its examples.
uint64_t init_seed(int64_t number, const TrialContext& context);
uint64_t order_seed(int64_t number, const TrialContext& context);

/// Its training: {"rate", "batch"}, one epoch, linearly to 0 after a tenth, without decay.
FineTuneOptions small_training(const nlohmann::json& training, uint64_t order,
                               TrialContext& context);

/// The mean loss of the validation examples, in nats, with gates of all heads or none.
double validation_loss(const SmallTask& task, TrainableModel& model,
                       std::span<const float> gates = {});
/// The same of some training examples, the first `count`.
double training_loss(const SmallTask& task, TrainableModel& model, int64_t count,
                     std::span<const float> gates = {});

/// The mean attention weight of each head on the token of each relation, over validation rows that
/// lead to four different ones. [head][relation], of a model with one layer.
std::vector<std::vector<double>> relation_weights(const SmallTask& task, TrainableModel& model);

/// Removes heads by setting their gates to 0, each time that of all that may go which adds least to
/// the loss of the first `sample` training examples. A layer keeps `keep` heads.
/// `removed` is called after each. Returns the number of losses that were measured.
int64_t remove_greedily(const SmallTask& task, TrainableModel& model, int64_t sample, int64_t keep,
                        std::vector<float>& gates, const std::function<void()>& removed = {});

/// Multiply-adds of one token in a forward pass with so many heads in each layer, with the keys of
/// half a sequence.
double multiply_adds(const SmallTask& task, const nlohmann::json& model, int64_t heads);

}  // namespace headwise
