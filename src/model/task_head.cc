// Reads the output layer of each task, and runs it.
#include "model/task_head.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/kernels/cross_entropy.h"
#include "model/families/family.h"

namespace headwise {
namespace {

/// The bias of an output layer, by the name that the checkpoint has for it.
const TensorInfo* take_bias(const TaskNames& names, int64_t outputs, bool tied,
                            WeightReader& reader) {
  const std::string beside = names.output + ".bias";
  if (!tied && !names.bias.empty() && reader.has(beside)) {
    if (reader.has(names.bias)) reader.take(names.bias, {outputs});  // of no use then
    return &reader.take(beside, {outputs});
  }
  if (names.bias_is_buffer) {
    return reader.has(names.bias) ? &reader.take(names.bias, {1, outputs}) : nullptr;
  }
  if (!names.bias.empty() && (reader.has(names.bias) || !reader.has(beside))) {
    const TensorInfo& bias = reader.take(names.bias, {outputs});
    reader.same_as(beside, bias);
    return &bias;
  }
  return reader.has(beside) ? &reader.take(beside, {outputs}) : nullptr;
}

}  // namespace

int64_t outputs_of(const ModelConfig& config) {
  switch (config.task) {
    case Task::hidden:
      return 0;
    case Task::masked_lm:
    case Task::causal_lm:
      return config.vocabulary;
    case Task::seq2seq_lm:
      return config.decoder_vocabulary;
    case Task::classify:
    case Task::classify_tokens:
      return static_cast<int64_t>(config.labels.size());
    case Task::answer:
      return 2;
    case Task::detect:
      return 1;
  }
  return 0;
}

bool TaskHead::was_saved(const ModelConfig& config, const std::string& prefix,
                         const WeightReader& reader) {
  if (config.task != Task::masked_lm) return true;
  const TaskNames names = task_names(config, prefix);
  if (reader.has(names.bias) || reader.has(names.output + ".bias")) return true;
  return std::ranges::any_of(names.steps, [&](const TaskStep& step) {
    return reader.has(step.dense + ".weight") || reader.has(step.norm + ".weight");
  });
}

OutputTensors take_output(const ModelConfig& config, const TaskNames& names, int64_t width,
                          const TensorInfo* word, WeightReader& reader) {
  const int64_t outputs = outputs_of(config);
  const std::string own = names.output + ".weight";
  const bool shared = config.tied || (names.tied_unless_stored && !reader.has(own));
  OutputTensors tensors{.tied = names.tied && shared && word != nullptr};
  if (tensors.tied) reader.same_as(own, *word);
  tensors.weight = tensors.tied ? word : &reader.take(own, {outputs, width});
  tensors.bias = take_bias(names, outputs, config.tied, reader);
  return tensors;
}

TaskHead::TaskHead(const ModelConfig& config, const std::string& prefix, const Embedding& word,
                   WeightReader& reader)
    : scale_(config.output_scale) {
  const TaskNames names = task_names(config, prefix);
  rows_ = names.rows;
  if (names.output.empty()) return;
  int64_t width = config.width;
  for (const TaskStep& step : names.steps) {
    // The last step before a tied output leads to the width of the embedding.
    const int64_t next = names.tied ? config.embedding_width : width;
    steps_.push_back(
        {Linear(reader, {.tensor = step.dense}, {.outputs = next, .inputs = width}),
         step.activation,
         step.norm.empty() ? Norm() : Norm(reader, {.tensor = step.norm}, config, next)});
    width = next;
  }
  const OutputTensors tensors =
      take_output(config, names, width, reader.files().find(word.tensor()), reader);
  if (config.task == Task::causal_lm) {
    table_ =
        tensors.tied ? word : Embedding(reader.table(*tensors.weight), outputs_of(config), width);
  }
  Weights weight(reader.packed(*tensors.weight)), bias;
  if (tensors.bias != nullptr) bias = Weights(reader.floats(*tensors.bias), 1);
  output_ = Linear(std::move(weight), std::move(bias));
}

View<const float, 2> TaskHead::prepare(View<const float, 2> hidden, Activations& held) const {
  if (width() == 0) {
    throw Error({.what = "the model has no output layer",
                 .expected = "a model saved with one, for instance BertForMaskedLM",
                 .hint = "ask for hidden states"});
  }
  View<const float, 2> x = hidden;
  if (scale_ != 1) {
    held = Activations(hidden.extent(0), hidden.extent(1));
    for (int64_t row = 0; row < hidden.extent(0); ++row) {
      for (int64_t c = 0; c < hidden.extent(1); ++c) held.rows(row, c) = scale_ * hidden(row, c);
    }
    x = held.rows;
  }
  for (const Step& step : steps_) {
    Activations next(hidden.extent(0), step.dense.outputs());
    step.dense.forward(x, next.rows, {.activation = step.activation});
    if (step.norm.exists()) step.norm.forward(next.rows, next.rows);
    held = std::move(next);
    x = held.rows;
  }
  return x;
}

Activations TaskHead::forward(View<const float, 2> hidden) const {
  Activations held;
  const View<const float, 2> x = prepare(hidden, held);
  Activations out(hidden.extent(0), width());
  output_.forward(x, out.rows);
  return out;
}

Activations TaskHead::beside_mean(std::span<const int32_t> tokens) const {
  constexpr int64_t kRowsAtOnce = 1024;
  const int64_t width = table_.width();
  std::vector<double> mean(width);
  for (int64_t begin = 0; begin < table_.rows(); begin += kRowsAtOnce) {
    std::vector<int32_t> ids(std::min(kRowsAtOnce, table_.rows() - begin));
    std::iota(ids.begin(), ids.end(), static_cast<int32_t>(begin));
    Activations part(std::ssize(ids), width);
    table_.gather(ids, scale_, false, part.rows);
    for (int64_t row = 0; row < std::ssize(ids); ++row) {
      for (int64_t c = 0; c < width; ++c) mean[c] += part.rows(row, c);
    }
  }
  Activations result(std::ssize(tokens), width);
  table_.gather(tokens, scale_, false, result.rows);
  for (int64_t row = 0; row < std::ssize(tokens); ++row) {
    for (int64_t c = 0; c < width; ++c) {
      result.rows(row, c) -= static_cast<float>(mean[c] / static_cast<double>(table_.rows()));
    }
  }
  return result;
}

void TaskHead::losses(View<const float, 2> hidden, std::span<const int32_t> targets,
                      std::span<double> losses) const {
  Activations held;
  const View<const float, 2> x = prepare(hidden, held);
  row_losses(x, output_.weight().packed(), output_.bias().vector(), targets, losses);
}

std::vector<int64_t> TaskHead::rows(std::span<const int64_t> offsets) const {
  std::vector<int64_t> rows;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    const int64_t begin = offsets[b], end = offsets[b + 1];
    if (begin == end) continue;
    switch (rows_) {
      case TaskRows::all:
        for (int64_t row = begin; row < end; ++row) rows.push_back(row);
        break;
      case TaskRows::first:
        rows.push_back(begin);
        break;
      case TaskRows::last:
        rows.push_back(end - 1);
        break;
    }
  }
  return rows;
}

}  // namespace headwise
