// Which rows are scored, and their loss.
#include "train/task_loss.h"

#include <fmt/format.h>

#include <algorithm>

#include "headwise/core/error.h"
#include "headwise/kernels/cross_entropy.h"

namespace headwise {
namespace {

/// Where at most one row in so many is not scored, to leave these out would gain less than to pick
/// the others takes.
constexpr int64_t kFewUnscored = 8;

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

WantedRows TaskLoss::choose(std::span<const int64_t> offsets, const TrainingBatch& batch) {
  chosen_.clear();
  targets_.clear();
  expected_.clear();
  const int64_t texts = std::ssize(offsets) - 1;
  const auto take = [&](size_t at, int64_t row) {
    if (config_.regression && config_.task == Task::classify) {
      expected_.push_back(batch.scores[at]);
    } else {
      if (batch.labels[at] == kIgnoreIndex) return;
      targets_.push_back(batch.labels[at]);
    }
    chosen_.push_back(row);
  };
  if (config_.regression && config_.task == Task::classify) {
    check_count("there is not one score per text", batch.scores.size(), texts);
  } else {
    check_count(head_.task_rows() == TaskRows::all ? "there is not one label per token"
                                                   : "there is not one label per text",
                batch.labels.size(), head_.task_rows() == TaskRows::all ? offsets.back() : texts);
    for (size_t i = 0; i < batch.labels.size(); ++i) check_label(batch.labels[i], i, head_.width());
  }
  if (head_.task_rows() == TaskRows::all) {
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
    take(b, head_.task_rows() == TaskRows::first ? offsets[b] : offsets[b + 1] - 1);
  }
  return chosen_;
}

Loss TaskLoss::run(View<const float, 2> hidden, const PassOptions& options,
                   View<float, 2> dhidden) {
  tape_.drop = {.residual = options.dropout, .seed = options.seed};
  tape_.rows = chosen_;
  const View<const float, 2> x = head_.forward(hidden, tape_);
  const bool train = dhidden.data() != nullptr;
  const View<float, 2> dx = !train || !head_.has_steps() ? dhidden : dx_.like(x);
  const Loss loss =
      expected_.empty() ? score_labels(x, options, dx) : score_numbers(x, options, dx);
  if (train) head_.backward(dx, dhidden, tape_);
  return loss;
}

Loss TaskLoss::score_labels(View<const float, 2> x, const PassOptions& options, View<float, 2> dx) {
  const MatrixGradient dweights =
      dx.data() == nullptr ? MatrixGradient{} : head_.weight().take_gradient();
  const CrossEntropyGradients gradients{.scale = options.gradient_scale,
                                        .dx = dx,
                                        .dweights = dweights.sums,
                                        .zero_dweights = dweights.grad_is_zero,
                                        .dbias = head_.bias().dvector()};
  const Weights& weight = head_.weight();
  const CrossEntropyLoss loss =
      cross_entropy({.x = x,
                     .weights = weight.matrix(),
                     .packed = weight.is_packed() ? &weight.packed() : nullptr,
                     .bias = head_.bias().vector(),
                     .targets = targets_,
                     .label_smoothing = options.label_smoothing},
                    dx.data() == nullptr ? nullptr : &gradients);
  return {.loss = loss.loss, .nll = loss.nll, .scored = loss.scored, .correct = loss.correct};
}

Loss TaskLoss::score_numbers(View<const float, 2> x, const PassOptions& options,
                             View<float, 2> dx) {
  const View<float, 2> scores = scores_.shaped(x.extent(0), head_.width());
  head_.weight().multiply(x, scores, {.bias = head_.bias().vector()});
  Loss loss{.scored = x.extent(0)};
  for (int64_t i = 0; i < x.extent(0); ++i) {
    const double error = double{scores(i, 0)} - double{expected_[i]};
    loss.loss += error * error;
    scores(i, 0) = static_cast<float>(2 * error) * options.gradient_scale;
  }
  loss.nll = loss.loss;
  if (dx.data() == nullptr) return loss;
  head_.weight().add_gradient(scores, x);
  if (head_.bias().requires_grad()) sum_rows(scores, head_.bias().dvector());
  head_.weight().multiply_backward(scores, {.dx = dx});
  return loss;
}

}  // namespace headwise
