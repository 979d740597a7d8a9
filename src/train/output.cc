// How the output layer of each task is declared, and its loss.
#include "train/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/kernels/activation.h"
#include "headwise/kernels/cross_entropy.h"
#include "headwise/kernels/dropout.h"
#include "model/families/family.h"
#include "model/task_head.h"

namespace headwise {
namespace {

/// Where at most one row in so many is not scored, to leave these out would gain less than to pick
/// the others takes.
constexpr int64_t kFewUnscored = 8;

void drop(View<float, 2> x, const Dropout& options) {
  if (options.p > 0) dropout(x, options, x);
}

void scale_rows(View<const float, 2> x, float factor, View<float, 2> out) {
  for (int64_t t = 0; t < x.extent(0); ++t) {
    for (int64_t c = 0; c < x.extent(1); ++c) out(t, c) = factor * x(t, c);
  }
}

void check_count(const char* what, size_t got, int64_t expected) {
  if (static_cast<int64_t>(got) == expected) return;
  throw Error(
      {.what = what, .got = fmt::format("{}", got), .expected = fmt::format("{}", expected)});
}

void check_label(int32_t label, size_t at, int64_t outputs) {
  if (label == kIgnoreIndex || (label >= 0 && label < outputs)) return;
  throw Error({.what = "a label is not one of the model's",
               .where = fmt::format("label {}", at),
               .got = fmt::format("{}", label),
               .expected = fmt::format("0 to {}, or {}: not scored", outputs - 1, kIgnoreIndex)});
}

}  // namespace

TrainedOutput::TrainedOutput(ParameterList& declare, const Place& place)
    : config_(&place.config),
      outputs_(outputs_of(place.config)),
      scale_(place.config.output_scale) {
  const ModelConfig& config = place.config;
  const TaskNames names = task_names(config, place.prefix);
  rows_ = names.rows;
  drops_input_ = names.drops_input;
  drops_output_ = names.drops_output;
  input_stream_ = place.streams++;
  output_stream_ = place.streams++;
  if (names.output.empty()) return;

  declare.in_output = true;
  int64_t width = config.width;
  for (const TaskStep& step : names.steps) {
    const int64_t next = names.tied ? config.embedding_width : width;
    steps_.push_back(
        {.dense = Linear(declare, {"output.dense", step.dense}, {.outputs = next, .inputs = width},
                         Init::normal(declare.init_std().output)),
         .activation = step.activation,
         .norm =
             step.norm.empty() ? Norm() : Norm(declare, {"output.norm", step.norm}, config, next)});
    width = next;
  }
  const std::string own = names.output + ".weight";
  const bool shared =
      config.tied || (names.tied_unless_stored && !place.fresh && !declare.has(own));
  if (names.tied && shared) {
    tied_ = &place.word;
    declare.copy(own, place.word.tensor());
  } else {
    weight_ = declare.matrix({"output.weight", own}, outputs_, width,
                             Init::normal(declare.init_std().output), {});
  }
  declare_bias(declare, place, names);
  declare.in_output = false;
}

void TrainedOutput::declare_bias(ParameterList& declare, const Place& place,
                                 const TaskNames& names) {
  const std::string beside = names.output + ".bias";
  if (!config_->tied && !names.bias.empty() && declare.has(beside)) {
    bias_ = declare.vector({"output.bias", beside}, outputs_, Init::zeros());
    declare.copy(names.bias, "");
  } else if (names.bias_is_buffer) {
    if (!place.fresh && !declare.has(names.bias)) return;
    bias_ = Weights(1, outputs_, false);
    declare.tensor(names.bias, {1, outputs_}, {{.values = bias_.matrix()}}, Init::zeros());
  } else if (!names.bias.empty() && (declare.has(names.bias) || !declare.has(beside))) {
    bias_ = declare.vector({"output.bias", names.bias}, outputs_, Init::zeros());
    declare.copy(beside, names.bias);
  } else if (declare.has(beside) || (place.fresh && names.has_bias)) {
    bias_ = declare.vector({"output.bias", beside}, outputs_, Init::zeros());
  }
}

Dropout TrainedOutput::input_dropout() const {
  return {.p = drops_input_ ? options_->dropout : 0,
          .seed = options_->seed,
          .stream = input_stream_,
          .rows = chosen_};
}

Dropout TrainedOutput::output_dropout() const {
  return {.p = drops_output_ ? options_->dropout : 0,
          .seed = options_->seed,
          .stream = output_stream_,
          .rows = chosen_};
}

WantedRows TrainedOutput::choose(std::span<const int64_t> offsets, const TrainingBatch& batch) {
  chosen_.clear();
  targets_.clear();
  expected_.clear();
  const int64_t texts = std::ssize(offsets) - 1;
  const auto take = [&](size_t at, int64_t row) {
    if (config_->regression && config_->task == Task::classify) {
      expected_.push_back(batch.scores[at]);
    } else {
      if (batch.labels[at] == kIgnoreIndex) return;
      targets_.push_back(batch.labels[at]);
    }
    chosen_.push_back(row);
  };
  if (config_->regression && config_->task == Task::classify) {
    check_count("there is not one score per text", batch.scores.size(), texts);
  } else {
    check_count(rows_ == TaskRows::all ? "there is not one label per token"
                                       : "there is not one label per text",
                batch.labels.size(), rows_ == TaskRows::all ? offsets.back() : texts);
    for (size_t i = 0; i < batch.labels.size(); ++i) check_label(batch.labels[i], i, outputs_);
  }
  if (rows_ == TaskRows::all) {
    const auto unscored = std::ranges::count(batch.labels, kIgnoreIndex);
    if (unscored * kFewUnscored <= std::ssize(batch.labels)) {
      targets_ = batch.labels;
      return {};
    }
    for (size_t row = 0; row < batch.labels.size(); ++row) take(row, static_cast<int64_t>(row));
    return chosen_;
  }
  for (int64_t b = 0; b < texts; ++b) {
    if (offsets[b] == offsets[b + 1]) continue;
    take(b, rows_ == TaskRows::first ? offsets[b] : offsets[b + 1] - 1);
  }
  return chosen_;
}

View<const float, 2> TrainedOutput::forward(View<const float, 2> hidden) {
  View<const float, 2> x = hidden;
  for (const Dropout& options : {input_dropout(), steps_.empty() ? output_dropout() : Dropout{}}) {
    if (options.p == 0) continue;
    dropout(x, options, dropped_.like(x));
    x = dropped_.view();
  }
  for (Step& step : steps_) {
    const View<float, 2> raw = step.raw.shaped(x.extent(0), step.dense.outputs());
    step.in = x;
    step.dense.forward(x, raw);
    activate(raw, step.activation, step.activated.like(raw));
    View<float, 2> out = step.activated.view();
    if (step.norm.exists()) {
      out = step.normed.like(raw);
      step.norm.forward(step.activated.view(), out);
    }
    drop(out, output_dropout());
    x = out;
  }
  if (scale_ != 1) {
    scale_rows(x, scale_, scaled_.like(x));
    x = scaled_.view();
  }
  return x;
}

void TrainedOutput::backward(View<float, 2> d, View<float, 2> dhidden) {
  if (scale_ != 1) scale_rows(d, scale_, d);
  for (size_t at = steps_.size(); at-- > 0;) {
    Step& step = steps_[at];
    drop(d, output_dropout());
    if (step.norm.exists()) step.norm.backward(step.activated.view(), d, {.dx = d});
    activate_backward(step.raw.view(), step.activation, d, d);
    const View<float, 2> dx = at == 0 ? dhidden : step.d.like(step.in);
    step.dense.backward(step.in, d, {.dx = dx});
    d = dx;
  }
  if (steps_.empty()) drop(dhidden, output_dropout());
  drop(dhidden, input_dropout());
}

Loss TrainedOutput::run(View<const float, 2> hidden, const PassOptions& options,
                        View<float, 2> dhidden) {
  options_ = &options;
  const View<const float, 2> x = forward(hidden);
  const bool train = dhidden.data() != nullptr;
  const View<float, 2> dx = !train || steps_.empty() ? dhidden : dx_.like(x);
  const Loss loss = expected_.empty() ? score_labels(x, dx) : score_numbers(x, dx);
  if (train) backward(dx, dhidden);
  return loss;
}

Loss TrainedOutput::score_labels(View<const float, 2> x, View<float, 2> dx) const {
  const MatrixGradient dweights = dx.data() == nullptr ? MatrixGradient{}
                                  : tied_ != nullptr   ? tied_->weights().take_gradient()
                                                       : weight_.take_gradient();
  const CrossEntropyGradients gradients{.scale = options_->gradient_scale,
                                        .dx = dx,
                                        .dweights = dweights.sums,
                                        .zero_dweights = dweights.grad_is_zero,
                                        .dbias = bias_.dvector()};
  const CrossEntropyLoss loss =
      cross_entropy({.x = x,
                     .weights = tied_ != nullptr ? tied_->weights().matrix() : weight_.matrix(),
                     .bias = bias_.vector(),
                     .targets = targets_,
                     .label_smoothing = options_->label_smoothing},
                    dx.data() == nullptr ? nullptr : &gradients);
  return {.loss = loss.loss, .nll = loss.nll, .scored = loss.scored, .correct = loss.correct};
}

Loss TrainedOutput::score_numbers(View<const float, 2> x, View<float, 2> dx) {
  const View<float, 2> scores = scores_.shaped(x.extent(0), outputs_);
  weight_.multiply(x, scores, {.bias = bias_.vector()});
  Loss loss{.scored = x.extent(0)};
  for (int64_t i = 0; i < x.extent(0); ++i) {
    const double error = double{scores(i, 0)} - double{expected_[i]};
    loss.loss += error * error;
    scores(i, 0) = static_cast<float>(2 * error) * options_->gradient_scale;
  }
  loss.nll = loss.loss;
  if (dx.data() == nullptr) return loss;
  weight_.add_product(scores, x);
  if (bias_.requires_grad()) sum_rows(scores, bias_.dvector());
  weight_.multiply_backward(scores, {.dx = dx});
  return loss;
}

}  // namespace headwise
