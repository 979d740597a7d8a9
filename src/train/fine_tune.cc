// Steps of AdamW over shuffled batches, down a loss.
#include "headwise/train/fine_tune.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>

#include "headwise/core/error.h"
#include "headwise/core/seed.h"
#include "headwise/train/batches.h"
#include "train/optimizer.h"
#include "train/schedule.h"

namespace headwise {
namespace {

constexpr uint32_t kDropped = 1;  // the purpose of seeds

/// Sums over the rows of a batch.
struct Distance {
  double squares = 0;  // |h - h'|²
  double whole = 0;    // |h|²

  double error() const { return whole > 0 ? squares / whole : 0; }
};

Activations wanted_of(const Model& teacher, const TrainingBatch& batch) {
  return batch.target.sequences() > 0 ? teacher.forward(batch.source, batch.target)
                                      : teacher.forward(batch.source);
}

/// The distance of the student's rows; its gradient, as a share of the whole, if `gradient` is not
/// empty.
Distance distance(View<const float, 2> wanted, View<const float, 2> rows, View<float, 2> gradient) {
  Distance sums;
  for (int64_t t = 0; t < wanted.extent(0); ++t) {
    for (int64_t c = 0; c < wanted.extent(1); ++c) {
      const double difference = double{rows(t, c)} - wanted(t, c);
      sums.squares += difference * difference;
      sums.whole += double{wanted(t, c)} * wanted(t, c);
    }
  }
  if (gradient.data() == nullptr) return sums;
  const float scale = sums.whole > 0 ? static_cast<float>(2 / sums.whole) : 0;
  for (int64_t t = 0; t < wanted.extent(0); ++t) {
    for (int64_t c = 0; c < wanted.extent(1); ++c) {
      gradient(t, c) = scale * (rows(t, c) - wanted(t, c));
    }
  }
  return sums;
}

void check_alike(const Model& teacher, const TrainableModel& student) {
  const int64_t taught = teacher.config().width, learns = student.config().width;
  if (taught == learns) return;
  throw Error({.what = "a model cannot learn hidden states of another width",
               .where = "the width of the model that learns",
               .got = fmt::format("{}", learns),
               .expected = fmt::format("{}", taught)});
}

BatchSettings batches_of(const FineTuneOptions& options) {
  return {.tokens = options.tokens_per_batch, .seed = options.seed};
}

/// Takes a step for every batch; `pass` adds its gradients and gives its loss, or nothing if
/// nothing was scored. Throws Error if the training goes astray.
void take_steps(
    const Examples& examples, const FineTuneOptions& options, TrainableModel& model,
    const std::function<std::optional<double>(const TrainingBatch&, const PassOptions&)>& pass) {
  const BatchSettings batches = batches_of(options);
  const int64_t steps = fine_tune_steps(examples, options);
  const ScheduleSettings schedule{
      .kind = ScheduleKind::linear,
      .warmup = static_cast<int64_t>(options.warmup * static_cast<double>(steps))};
  Optimizer optimizer(model, options.optimizer);
  View<const float, 2> gates;
  if (!options.gates.empty()) gates = {options.gates.data(), {1, std::ssize(options.gates)}};
  int64_t done = 0;
  for (int64_t number = 0; number < options.epochs; ++number) {
    const Epoch epoch(examples, batches, number);
    for (int64_t i = 0; i < epoch.batches(); ++i) {
      const std::optional<double> loss =
          pass(epoch.batch(i),
               {.dropout = options.dropout,
                .head_dropout = options.head_dropout,
                .label_smoothing = options.label_smoothing,
                .seed = derived_seed(options.seed, static_cast<uint64_t>(done), 0, kDropped),
                .gates = gates});
      const double factor = schedule_factor(schedule, done, steps);
      const double norm = optimizer.gradient_norm();
      ++done;
      if (loss && !(std::isfinite(*loss) && std::isfinite(norm))) {
        throw Error({.what = "the training went astray: its loss is no longer finite",
                     .where = fmt::format("step {}", done),
                     .got = fmt::format("{}", *loss),
                     .hint = "a smaller rate"});
      }
      if (loss) {
        if (options.before_step) options.before_step();
        optimizer.step(done, factor, norm);
      }
      if (options.progress) options.progress(done, steps, loss.value_or(0));
    }
  }
}

}  // namespace

int64_t fine_tune_steps(const Examples& examples, const FineTuneOptions& options) {
  int64_t steps = 0;
  for (int64_t number = 0; number < options.epochs; ++number) {
    steps += Epoch(examples, batches_of(options), number).batches();
  }
  return steps;
}

double hidden_error(const Model& teacher, const Examples& examples, TrainableModel& student) {
  check_alike(teacher, student);
  const Epoch epoch(examples, {.shuffle = false}, 0);
  Distance all;
  for (int64_t i = 0; i < epoch.batches(); ++i) {
    const TrainingBatch batch = epoch.batch(i);
    const Activations wanted = wanted_of(teacher, batch);
    student.train_hidden(batch, {}, [&](View<const float, 2> hidden, View<float, 2>) {
      const Distance one = distance(wanted.rows, hidden, {});
      all.squares += one.squares;
      all.whole += one.whole;
      return false;
    });
  }
  return all.error();
}

void distill(const Model& teacher, const Examples& examples, const FineTuneOptions& options,
             TrainableModel& student) {
  check_alike(teacher, student);
  take_steps(examples, options, student, [&](const TrainingBatch& batch, const PassOptions& pass) {
    const Activations wanted = wanted_of(teacher, batch);
    std::optional<double> error;
    student.train_hidden(batch, pass, [&](View<const float, 2> hidden, View<float, 2> gradient) {
      if (error) return false;
      error = distance(wanted.rows, hidden, gradient).error();
      return true;
    });
    return *error;
  });
}

void fine_tune(const Examples& examples, const FineTuneOptions& options, TrainableModel& model) {
  take_steps(examples, options, model,
             [&](const TrainingBatch& batch, PassOptions pass) -> std::optional<double> {
               const int64_t scored = batch.scored();
               if (scored == 0) return {};
               pass.gradient_scale = 1 / static_cast<float>(scored);
               return model.train(batch, pass).loss / static_cast<double>(scored);
             });
}

}  // namespace headwise
