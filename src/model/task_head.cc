// The weights of the output layer of each task, and its passes.
#include "model/task_head.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/kernels/activation.h"
#include "headwise/kernels/cross_entropy.h"
#include "headwise/kernels/dropout.h"
#include "model/families/family.h"

namespace headwise {
namespace {

void scale_rows(View<const float, 2> x, float factor, View<float, 2> out) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    for (int64_t c = 0; c < x.extent(1); ++c) out(t, c) = factor * x(t, c);
  }
}

void drop(View<float, 2> x, const Dropout& options) {
  if (options.p > 0) dropout(x, options, x);
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
                         const WeightSource& source) {
  if (config.task != Task::masked_lm) return true;
  const TaskNames names = task_names(config, prefix);
  if (source.has(names.bias) || source.has(names.output + ".bias")) return true;
  return std::ranges::any_of(names.steps, [&](const TaskStep& step) {
    return source.has(step.dense + ".weight") || source.has(step.norm + ".weight");
  });
}

OutputTensors output_tensors(const ModelConfig& config, const TaskNames& names,
                             const HasTensor& has, bool fresh) {
  const std::string own = names.output + ".weight", beside = names.output + ".bias";
  const bool shared = config.tied || (names.tied_unless_stored && !fresh && !has(own));
  OutputTensors tensors{.weight = own, .tied = names.tied && shared};
  if (!config.tied && !names.bias.empty() && has(beside)) {
    tensors.bias = beside;
    tensors.beside_bias = names.bias;
  } else if (names.bias_is_buffer) {
    if (fresh || has(names.bias)) tensors.bias = names.bias;
    tensors.bias_is_buffer = true;
  } else if (!names.bias.empty() && (has(names.bias) || !has(beside))) {
    tensors.bias = names.bias;
    tensors.beside_bias = beside;
    tensors.same_as_bias = true;
  } else if (has(beside) || (fresh && names.has_bias)) {
    tensors.bias = beside;
  }
  return tensors;
}

TaskHead::TaskHead(WeightSource& source, const Place& place) : scale_(place.config.output_scale) {
  const ModelConfig& config = place.config;
  const TaskNames names = task_names(config, place.prefix);
  rows_ = names.rows;
  drops_input_ = names.drops_input;
  drops_output_ = names.drops_output;
  input_stream_ = place.streams++;
  output_stream_ = place.streams++;
  if (names.output.empty()) return;
  int64_t width = config.width;
  for (const TaskStep& step : names.steps) {
    // The last step before a tied output leads to the width of the embedding.
    const int64_t next = names.tied ? config.embedding_width : width;
    steps_.push_back(
        {.dense = Linear(source, {"output.dense", step.dense}, {.outputs = next, .inputs = width}),
         .activation = step.activation,
         .norm =
             step.norm.empty() ? Norm() : Norm(source, {"output.norm", step.norm}, config, next)});
    width = next;
  }
  const int64_t outputs = outputs_of(config);
  const OutputTensors tensors = output_tensors(
      config, names, [&](const std::string& name) { return source.has(name); }, place.fresh);
  if (tensors.tied) source.copy(tensors.weight, place.word.tensor());
  const Embedding table =
      tensors.tied ? place.word
                   : Embedding(source, {"output.weight", tensors.weight}, outputs, width);
  weight_ = source.factor(table.table());
  if (config.task == Task::causal_lm) table_ = table;
  if (tensors.bias_is_buffer && !tensors.bias.empty()) {
    bias_ = Weights(1, outputs, false);
    source.tensor(tensors.bias, {1, outputs}, {{.values = bias_.matrix()}});
  } else if (!tensors.bias.empty()) {
    bias_ = source.vector({"output.bias", tensors.bias}, outputs);
  }
  if (!tensors.beside_bias.empty()) {
    source.copy(tensors.beside_bias, tensors.same_as_bias ? tensors.bias : "");
  }
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
    scale_rows(hidden, scale_, held.rows);
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
  weight_->multiply(x, out.rows, {.bias = bias_.vector()});
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
  row_losses(x, weight_->packed(), bias_.vector(), targets, losses);
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

Dropout TaskHead::dropout_of(bool drops, uint64_t stream, const Tape& tape) const {
  return {.p = drops ? tape.drop.residual : 0,
          .seed = tape.drop.seed,
          .stream = stream,
          .rows = tape.rows};
}

View<const float, 2> TaskHead::forward(View<const float, 2> hidden, Tape& tape) const {
  const Dropout at_input = dropout_of(drops_input_, input_stream_, tape);
  const Dropout at_output = dropout_of(drops_output_, output_stream_, tape);
  View<const float, 2> x = hidden;
  for (const Dropout& options : {at_input, steps_.empty() ? at_output : Dropout{}}) {
    if (options.p == 0) continue;
    dropout(x, options, tape.dropped.like(x));
    x = tape.dropped.view();
  }
  tape.steps.resize(steps_.size());
  for (size_t at = 0; at < steps_.size(); ++at) {
    const Step& step = steps_[at];
    Tape::Step& of = tape.steps[at];
    const View<float, 2> raw = of.raw.shaped(x.extent(0), step.dense.outputs());
    of.in = x;
    step.dense.forward(x, raw);
    activate(raw, step.activation, of.activated.like(raw));
    View<float, 2> out = of.activated.view();
    if (step.norm.exists()) {
      out = of.normed.like(raw);
      step.norm.forward(of.activated.view(), out);
    }
    drop(out, at_output);
    x = out;
  }
  if (scale_ != 1) {
    scale_rows(x, scale_, tape.scaled.like(x));
    x = tape.scaled.view();
  }
  return x;
}

void TaskHead::backward(View<float, 2> d, View<float, 2> dhidden, Tape& tape) const {
  const Dropout at_output = dropout_of(drops_output_, output_stream_, tape);
  if (scale_ != 1) scale_rows(d, scale_, d);
  for (size_t at = steps_.size(); at-- > 0;) {
    const Step& step = steps_[at];
    Tape::Step& of = tape.steps[at];
    drop(d, at_output);
    if (step.norm.exists()) step.norm.backward(of.activated.view(), d, {.dx = d});
    activate_backward(of.raw.view(), step.activation, d, d);
    const View<float, 2> dx = at == 0 ? dhidden : of.d.like(of.in);
    step.dense.backward(of.in, d, {.dx = dx});
    d = dx;
  }
  if (steps_.empty()) drop(dhidden, at_output);
  drop(dhidden, dropout_of(drops_input_, input_stream_, tape));
}

}  // namespace headwise
