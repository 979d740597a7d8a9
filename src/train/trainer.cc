// The loop of a training.
#include "headwise/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/seed.h"
#include "headwise/train/batches.h"
#include "io/file.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/head_log.h"
#include "train/optimizer.h"
#include "train/run_log.h"
#include "train/schedule.h"
#include "train/train_folder.h"
#include "train/train_records.h"
#include "train/training_setup.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kSecondsBetweenCheckpoints = 60;

/// Thrown where the observer wants to stop.
struct Stop {};

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// What a pass drops is a function of the seed, the step and the batch within it.
uint64_t pass_seed(uint64_t seed, int64_t step, int64_t part) {
  constexpr uint32_t kPurpose = 0x7EA1D000;
  return derived_seed(seed, static_cast<uint64_t>(step), static_cast<uint32_t>(part), kPurpose);
}

bool is_better(Metric metric, double value, double than) {
  return metric == Metric::loss ? value < than : value > than;
}

class Trainer {
 public:
  Trainer(const TrainSettings& settings, const fs::path& folder, TrainObserver& observer,
          TrainingSetup setup)
      : settings_(settings),
        folder_(folder),
        observer_(observer),
        setup_(std::move(setup)),
        evaluator_(settings, setup_.model, setup_.tokenizer, [this] { check(); }),
        checkpoints_(folder / "checkpoint") {
    freeze(setup_.model, settings.freeze);
    if (settings.gates) setup_.model.learn_gates(*settings.gates);
    optimizer_.emplace(setup_.model, settings.optimizer);
  }

  std::optional<TrainSummary> run() {
    begin();
    try {
      for (;;) {
        if (evaluation_due()) evaluate_state();  // also one that was interrupted
        if (checkpoint_due()) write_checkpoint();
        if (finished()) break;
        check();
        step();
      }
    } catch (const Stop&) {
      write_checkpoint();
      return {};
    }
    try {
      return finish();
    } catch (const Stop&) {
      return {};
    }
  }

 private:
  void check() const {
    if (observer_.interrupted()) throw Stop();
  }

  BatchSettings batch_settings() const {
    return {.tokens = settings_.tokens_per_batch, .seed = settings_.seed};
  }

  int64_t steps_in(const Epoch& epoch) const {
    return (epoch.batches() + settings_.accumulate - 1) / settings_.accumulate;
  }

  /// Counts the steps, takes up what was left off, and tells what will be done.
  void begin() {
    const Epoch first(setup_.data.train, batch_settings(), 0);
    plan_ = {.config = setup_.model.config(),
             .examples = setup_.data.train.size(),
             .validation_examples = setup_.data.validation.size(),
             .test_examples = setup_.data.test.size(),
             .tokens_per_epoch = setup_.data.train.all.tokens(),
             .batches_per_epoch = first.batches(),
             .epochs = static_cast<double>(settings_.epochs),
             .steps = settings_.steps};
    for (const Parameter& parameter : setup_.model.parameters()) {
      plan_.parameters += std::ssize(parameter.values);
      if (parameter.requires_grad) plan_.trained_parameters += std::ssize(parameter.values);
    }
    for (int64_t epoch = 0; epoch < settings_.epochs; ++epoch) {
      check();
      plan_.steps += steps_in(Epoch(setup_.data.train, batch_settings(), epoch));
    }
    if (settings_.steps > 0) {
      plan_.epochs = static_cast<double>(plan_.steps) / static_cast<double>(steps_in(first));
    }
    take_up();
    plan_.resumed_at = state_.step;
    observer_.planned(plan_);
  }

  void take_up() {
    if (checkpoints_.exist()) {
      std::optional<std::string> other_simd;
      state_ = checkpoints_.read(setup_.identity, setup_.model, *optimizer_, other_simd);
      if (other_simd) {
        observer_.remark(
            fmt::format("the training was begun with {} and goes on with {}: its bits "
                        "will differ a little from those of one run",
                        *other_simd, setup_.identity.simd));
      }
      write_settings(settings_, folder_);  // the same, but files may lie elsewhere
    }
    make_folder(checkpoints_.folder());
    write_beside(settings_, setup_, folder_);
    log_.emplace(folder_ / "log.jsonl", state_.log_bytes);
    seconds_before_ = state_.seconds;
  }

  bool stopped_early() const {
    return settings_.evaluate.patience > 0 && state_.stale >= settings_.evaluate.patience;
  }
  bool finished() const { return state_.step >= plan_.steps || stopped_early(); }

  bool evaluation_due() const {
    if (setup_.data.validation.size() == 0) return false;
    if (state_.step == 0 || state_.evaluated == state_.step) return false;
    if (state_.step >= plan_.steps) return true;
    return settings_.evaluate.every > 0 ? state_.step % settings_.evaluate.every == 0
                                        : state_.batch == 0;
  }

  bool checkpoint_due() const {
    if (written_) return false;
    // Snapshots that an evaluation makes superfluous go with the checkpoint.
    if (finished() || state_.evaluated == state_.step) return true;
    return settings_.checkpoint_every > 0
               ? state_.step % settings_.checkpoint_every == 0
               : since(last_checkpoint_time_) > kSecondsBetweenCheckpoints;
  }

  void write_checkpoint() {
    log_->sync();
    state_.log_bytes = log_->bytes();
    state_.seconds = seconds();
    checkpoints_.write(state_, setup_.identity, setup_.model, *optimizer_);
    std::vector<int64_t> kept = state_.recent;
    kept.push_back(state_.best_step);
    checkpoints_.remove_snapshots_but(kept);
    written_ = true;
    last_checkpoint_time_ = Clock::now();
  }

  double seconds() const { return seconds_before_ + since(started_); }

  const Epoch& epoch() {
    if (!epoch_ || epoch_number_ != state_.epoch) {
      epoch_.emplace(setup_.data.train, batch_settings(), state_.epoch);
      epoch_number_ = state_.epoch;
    }
    return *epoch_;
  }

  double epochs_done() {
    return static_cast<double>(state_.epoch) +
           static_cast<double>(state_.batch) / static_cast<double>(epoch().batches());
  }

  /// The batches of one step, which never crosses the end of an epoch.
  std::vector<TrainingBatch> next_batches() {
    std::vector<TrainingBatch> parts;
    const int64_t end = std::min(state_.batch + settings_.accumulate, epoch().batches());
    for (int64_t index = state_.batch; index < end; ++index) {
      parts.push_back(epoch().batch(index));
    }
    return parts;
  }

  Loss add_gradients(const std::vector<TrainingBatch>& parts) {
    int64_t scored = 0;
    for (const TrainingBatch& part : parts) scored += part.scored();
    Loss sum;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Loss loss = setup_.model.train(
          parts[i], {.dropout = settings_.dropout,
                     .attention_dropout = settings_.attention_dropout,
                     .head_dropout = settings_.head_dropout,
                     .label_smoothing = settings_.label_smoothing,
                     .seed = pass_seed(settings_.seed, state_.step, static_cast<int64_t>(i)),
                     .gradient_scale = 1.f / static_cast<float>(std::max<int64_t>(1, scored)),
                     .observer = head_log_due() ? &head_log_ : nullptr});
      sum.loss += loss.loss;
      sum.nll += loss.nll;
      sum.scored += loss.scored;
    }
    return sum;
  }

  /// Whether the step to come is one whose heads are told of.
  bool head_log_due() const {
    return settings_.log_heads_every > 0 && (state_.step + 1) % settings_.log_heads_every == 0;
  }

  void step() {
    const Clock::time_point begin = Clock::now();
    const std::vector<TrainingBatch> parts = next_batches();
    const Loss loss = add_gradients(parts);
    const double norm = optimizer_->gradient_norm();
    const double factor = schedule_factor(settings_.schedule, state_.step, plan_.steps);
    if (!std::isfinite(loss.loss) || !std::isfinite(norm)) {
      refuse_to_go_on(state_.step + 1,
                      fmt::format("loss {}, norm of the gradients {}", loss.loss, norm));
    }
    if (head_log_due()) log_->add(to_record(state_.step + 1, head_log_.take(setup_.model)));
    // A step that scores nothing changes nothing.
    if (loss.scored > 0) optimizer_->step(state_.step + 1, factor, norm);

    int64_t tokens = 0;
    for (const TrainingBatch& part : parts) tokens += part.tokens();
    const double epoch_now = epochs_done();
    state_.batch += std::ssize(parts);
    if (state_.batch == epoch().batches()) {
      ++state_.epoch;
      state_.batch = 0;
    }
    ++state_.step;
    written_ = false;
    state_.tokens += tokens;
    const double took = since(begin);
    state_.step_seconds += took;
    log_step({.step = state_.step,
              .loss = loss,
              .gradient_norm = norm,
              .rate = settings_.optimizer.rate * factor,
              .epoch = epoch_now,
              .tokens = tokens,
              .step_seconds = took,
              .seconds = seconds(),
              .open_heads = open_heads(setup_.model)});
  }

  void log_step(const StepRecord& r) {
    log_->add(to_record(r));
    if (r.loss.scored > 0) {
      constexpr double kMemory = 0.98;
      const double loss = r.loss.loss / static_cast<double>(r.loss.scored);
      running_loss_ = running_loss_ ? kMemory * *running_loss_ + (1 - kMemory) * loss : loss;
    }
    const double elapsed = since(started_);
    const auto here = static_cast<double>(state_.step - plan_.resumed_at);
    observer_.stepped(
        {.step = state_.step,
         .steps = plan_.steps,
         .epoch = r.epoch,
         .loss = running_loss_.value_or(0),
         .tokens_per_second = static_cast<double>(state_.tokens) / state_.step_seconds,
         .seconds = seconds(),
         .seconds_left = elapsed / here * static_cast<double>(plan_.steps - state_.step)});
  }

  [[noreturn]] static void refuse_to_go_on(int64_t step, std::string got) {
    throw Error({.what = "the training has diverged: its numbers are not finite any more",
                 .where = fmt::format("step {}", step),
                 .got = std::move(got),
                 .expected = "finite numbers",
                 .hint = "lower optimizer.rate, lengthen schedule.warmup, or clip the gradients"});
  }

  /// On the validation data, with what the metric needs.
  Evaluation validate() {
    Evaluation result = evaluator_(setup_.data.validation);
    result.step = state_.step;
    if (settings_.evaluate.metric == Metric::bleu) {
      const fs::path saved = checkpoints_.folder() / "model";
      save_to(saved);
      result.bleu = evaluator_.bleu(setup_.data.validation, settings_.data.validation, saved);
    }
    return result;
  }

  void save_to(const fs::path& folder) const {
    setup_.model.save(folder);
    const fs::path options = folder_ / "generation_config.json";
    if (is_there(options)) write_file_whole(folder / options.filename(), read_file(options));
  }

  void evaluate_state() {
    const Evaluation result = validate();
    if (!std::isfinite(result.loss)) {
      refuse_to_go_on(state_.step, fmt::format("loss {} of the validation data", result.loss));
    }
    const double value = result.value(settings_.evaluate.metric);
    const bool best =
        state_.best_step < 0 || is_better(settings_.evaluate.metric, value, state_.best);
    // Of a training with gates the last state is kept.
    const bool may_be_kept = !settings_.gates && (best || settings_.average > 0);
    if (may_be_kept) checkpoints_.write_snapshot(state_.step, setup_.model);
    if (best) {
      state_.best_step = state_.step;
      state_.best = value;
    }
    state_.stale = best ? 0 : state_.stale + 1;
    state_.evaluated = state_.step;
    written_ = false;
    if (settings_.average > 0) state_.recent.push_back(state_.step);
    if (std::ssize(state_.recent) > settings_.average) state_.recent.erase(state_.recent.begin());
    log_->add(to_record({.evaluation = result,
                         .task = settings_.task,
                         .epoch = epochs_done(),
                         .best = best,
                         .seconds = seconds()}));
    observer_.evaluated(result, best);
  }

  /// Keeps the best state, or the average of the last ones if that is not worse. Gates close in the
  /// course of a training, so that with them the last state is kept. Returns how good what is kept
  /// is, if that had to be found out.
  std::optional<Evaluation> choose(TrainSummary& summary) {
    summary.kept_steps = {state_.step};
    if (state_.best_step < 0 || settings_.gates) return {};
    const Metric metric = settings_.evaluate.metric;
    if (state_.recent.size() > 1) {
      checkpoints_.load_mean(state_.recent, setup_.model);
      const Evaluation mean = validate();
      if (!is_better(metric, state_.best, mean.value(metric))) {
        summary.kept = Kept::average;
        summary.kept_steps = state_.recent;
        return mean;
      }
    }
    summary.kept = Kept::best;
    summary.kept_steps = {state_.best_step};
    checkpoints_.load_mean(summary.kept_steps, setup_.model);
    return {};
  }

  /// Only with gates is it another model than the one that was planned.
  void describe_saved(TrainSummary& summary) const {
    if (!settings_.gates) return;
    TrainableModel saved = TrainableModel::load(folder_, {.task = plan_.config.task});
    summary.config = saved.config();
    summary.parameters = 0;
    for (const Parameter& parameter : saved.parameters()) {
      summary.parameters += std::ssize(parameter.values);
    }
  }

  TrainSummary finish() {
    TrainSummary summary{.plan = plan_,
                         .config = plan_.config,
                         .parameters = plan_.parameters,
                         .steps = state_.step,
                         .tokens = state_.tokens,
                         .stopped_early = state_.step < plan_.steps,
                         .files = setup_.identity.files};
    const std::optional<Evaluation> known = choose(summary);
    setup_.model.save(folder_);
    describe_saved(summary);
    const auto complete = [&](Evaluation result, const Examples& examples, const DataFiles& files) {
      result.step = summary.kept_steps.back();
      if (settings_.task == TrainTask::translation && !result.bleu) {
        result.bleu = evaluator_.bleu(examples, files, folder_);
      }
      return result;
    };
    const Examples &validation = setup_.data.validation, &test = setup_.data.test;
    if (validation.size() > 0) {
      summary.validation =
          complete(known ? *known : evaluator_(validation), validation, settings_.data.validation);
    }
    if (test.size() > 0) summary.test = complete(evaluator_(test), test, settings_.data.test);
    summary.seconds = seconds();
    summary.tokens_per_second =
        state_.step_seconds > 0 ? static_cast<double>(state_.tokens) / state_.step_seconds : 0;
    write_file_whole(folder_ / "summary.json", to_json(summary, settings_));
    fs::remove_all(checkpoints_.folder());
    return summary;
  }

  const TrainSettings& settings_;
  const fs::path& folder_;
  TrainObserver& observer_;
  TrainingSetup setup_;
  Evaluator evaluator_;
  Checkpoints checkpoints_;
  std::optional<Optimizer> optimizer_;
  TrainPlan plan_;
  TrainState state_;
  std::optional<RunLog> log_;
  HeadLog head_log_;
  std::optional<Epoch> epoch_;
  int64_t epoch_number_ = -1;
  std::optional<double> running_loss_;
  bool written_ = true;  // state_ is that of the checkpoint, or of a beginning
  double seconds_before_ = 0;
  Clock::time_point started_ = Clock::now(), last_checkpoint_time_ = started_;
};

}  // namespace

std::optional<TrainSummary> train(const TrainSettings& settings, const fs::path& folder,
                                  bool resume, TrainObserver& observer) {
  const TrainFolder held(folder, settings, resume);
  try {
    TrainingSetup setup = set_up(settings, folder, [&] {
      if (observer.interrupted()) throw Stop();
    });
    return Trainer(settings, folder, observer, std::move(setup)).run();
  } catch (const Stop&) {
    return {};
  }
}

}  // namespace headwise
