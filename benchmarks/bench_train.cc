// Training steps: ours against PyTorch's, from batch to changed weights.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "harness.h"
#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/train/trainable_model.h"
#include "peer.h"
#include "report.h"
#include "temporary_folder.h"
#include "train/optimizer.h"
#include "train_problem.h"

namespace headwise::bench {
namespace {

constexpr double kTolerance = 1e-4;  // of the loss before the first step

/// Steps as a training makes them, over and over.
class Steps {
 public:
  Steps(TrainableModel& model, const TrainProblem& problem)
      : model_(model),
        problem_(problem),
        optimizer_(model, {.rate = 1e-4, .beta2 = 0.98, .epsilon = 1e-9}) {}

  void on_every_batch() {
    for (const TrainingBatch& batch : problem_.batches) {
      ++step_;
      (void)model_.train(batch, {.dropout = kDropout,
                                 .attention_dropout = kDropout,
                                 .label_smoothing = problem_.label_smoothing,
                                 .seed = static_cast<uint64_t>(step_),
                                 .gradient_scale = 1 / static_cast<float>(batch.scored())});
      optimizer_.step(step_, 1, optimizer_.gradient_norm());
    }
  }

 private:
  TrainableModel& model_;
  const TrainProblem& problem_;
  Optimizer optimizer_;
  int64_t step_ = 0;
};

class TrainBenchmark {
 public:
  TrainBenchmark(const Options& options, Report& report)
      : options_(options),
        report_(report),
        harness_({.sample_seconds = 0.1,
                  .samples = options.quick ? 5 : 9,
                  .race_seconds = options.quick ? 6. : 20.}) {}

  void run();

 private:
  void measure(const TrainProblem& problem, int threads, double goal);
  std::vector<float> peer_losses(const TrainProblem& problem, const std::filesystem::path& folder,
                                 int threads);

  const Options& options_;
  Report& report_;
  Harness harness_;
  std::unique_ptr<Peer> peer_;
};

nlohmann::json rows_of(const TokenBatch& batch, std::span<const int32_t> values, int32_t unscored) {
  nlohmann::json rows = nlohmann::json::array();
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    nlohmann::json row = nlohmann::json::array();
    for (int64_t i = batch.offsets[b]; i < batch.offsets[b + 1]; ++i) {
      row.push_back(values[i] == kIgnoreIndex ? unscored : values[i]);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<float> TrainBenchmark::peer_losses(const TrainProblem& problem,
                                               const std::filesystem::path& folder, int threads) {
  constexpr int32_t kTorchUnscored = -100;
  nlohmann::json batches = nlohmann::json::array();
  for (const TrainingBatch& batch : problem.batches) {
    const bool two = batch.target.sequences() > 0;
    const TokenBatch& scored = two ? batch.target : batch.source;
    nlohmann::json one{{"source", rows_of(batch.source, batch.source.ids, 0)}};
    if (two) one["target"] = rows_of(batch.target, batch.target.ids, 0);
    one["labels"] = problem.task == "classification"
                        ? nlohmann::json(batch.labels)
                        : rows_of(scored, batch.labels, kTorchUnscored);
    batches.push_back(std::move(one));
  }
  if (peer_ == nullptr) peer_ = std::make_unique<Peer>(options_, "train");
  peer_->prepare({{"folder", folder.string()},
                  {"task", problem.task},
                  {"batches", std::move(batches)},
                  {"dropout", kDropout},
                  {"label_smoothing", problem.label_smoothing},
                  {"threads", threads}});
  return peer_->outputs();
}

void require_same_losses(const std::string& name, const TrainProblem& problem,
                         TrainableModel& model, std::span<const float> peer) {
  for (size_t i = 0; i < problem.batches.size(); ++i) {
    const Loss ours =
        model.evaluate(problem.batches[i], {.label_smoothing = problem.label_smoothing});
    const double loss = ours.loss / static_cast<double>(ours.scored);
    if (std::abs(loss - peer[i]) <= kTolerance * loss) continue;
    throw Error({.what = "bench train: our loss is not the peer's",
                 .where = fmt::format("{}, batch {}", name, i),
                 .got = fmt::format("{}", loss),
                 .expected = fmt::format("{}", peer[i])});
  }
}

void TrainBenchmark::measure(const TrainProblem& problem, int threads, double goal) {
  const std::string name = fmt::format("train {} threads={}", problem.name, threads);
  if (!options_.select(name)) return;
  set_threads(threads);
  TrainableModel model = TrainableModel::create(problem.config, {.seed = 1});
  Steps steps(model, problem);
  std::vector<Timer> sides{timer_of([&] { steps.on_every_batch(); })};
  if (!options_.peer.empty()) {
    const TemporaryFolder folder;
    model.save(folder.path());
    try {
      require_same_losses(name, problem, model, peer_losses(problem, folder.path(), threads));
    } catch (const Error& error) {
      return report_.refused(error);
    }
    sides.push_back([this](int64_t reps) { return peer_->time(reps); });
  }
  const std::vector<Timing> timings = harness_.race(threads, sides);
  const auto tokens = static_cast<double>(problem.tokens());
  Result result{.name = name,
                .unit = "tokens/s",
                .ours = tokens / timings[0].seconds,
                .goal = goal,
                .disturbed = timings[0].disturbed};
  if (timings.size() > 1) {
    result.peer = tokens / timings[1].seconds;
    result.ratio = result.ours / *result.peer;
    result.disturbed |= timings[1].disturbed;
  }
  fmt::print(stderr, "{}: ours at {:.1f} GFLOP/s, FMA peak {:.1f}\n", name,
             problem.flops * 1e-9 / timings[0].seconds, harness_.fma_peak(threads));
  report_.add(result);
}

void TrainBenchmark::run() {
  for (const int threads : options_.threads) {
    const bool one = threads == 1;
    measure(translation(), threads, one ? 1.25 : 1.5);
    measure(language_model(32, 128), threads, one ? 1.2 : 1.4);
    measure(language_model(1, 32), threads, 3);
    measure(fine_tuning(), threads, 1);
    if (options_.texts.size() == 2) {
      measure(epoch_part(options_.texts[0], options_.texts[1], options_.quick ? 4 : 16), threads,
              1.8);
    }
  }
}

}  // namespace
}  // namespace headwise::bench

int main(int argc, char** argv) {
  using namespace headwise::bench;
  return run_benchmark(
      argc, argv, "bench train: a training step of ours and of PyTorch, interleaved",
      [](const Options& options, Report& report) { TrainBenchmark(options, report).run(); });
}
