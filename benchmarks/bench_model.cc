// Models: ours against transformers, ONNX Runtime and CTranslate2, with and without statistics;
// memory, decoding, and how long the program takes to its first answer.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "harness.h"
#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/model/generate.h"
#include "model_memory.h"
#include "model_problem.h"
#include "peer.h"
#include "report.h"

namespace headwise::bench {
namespace {

constexpr double kTolerance = 1e-3;  // of the largest value; libraries order their sums differently

struct Batch {
  std::string name;
  std::vector<int64_t> lengths;
};

/// 8 to 128 tokens, in no order.
Batch mixed_lengths() {
  Batch batch{.name = "32x8-128"};
  for (int64_t b = 0; b < 32; ++b) batch.lengths.push_back(8 + b * 7 % 32 * 120 / 31);
  return batch;
}

class ModelBenchmark {
 public:
  ModelBenchmark(const Options& options, Report& report)
      : options_(options),
        report_(report),
        harness_({.sample_seconds = 0.05,
                  .samples = options.quick ? 5 : 9,
                  .race_seconds = options.quick ? 3. : 12.}) {}

  void run();

 private:
  void forward(const ModelShape& shape, const Batch& batch, int threads, double goal);
  void statistics(const ModelShape& shape, const Batch& batch, int threads, double goal);
  void routing(const Batch& batch, int threads);
  void memory(const ModelShape& shape);
  void decoding(const std::filesystem::path& folder, int threads);
  void start_up(const std::filesystem::path& folder);

  Peer& peer(const std::string& library);
  const Options& options_;
  Report& report_;
  Harness harness_;
  ModelFolders folders_;
  std::map<std::string, std::unique_ptr<Peer>> peers_;
};

Peer& ModelBenchmark::peer(const std::string& library) {
  auto& peer = peers_[library];
  if (peer == nullptr) peer = std::make_unique<Peer>(options_, "model");
  return *peer;
}

void ModelBenchmark::forward(const ModelShape& shape, const Batch& batch, int threads,
                             double goal) {
  const std::string name =
      fmt::format("forward model={} batch={} threads={}", shape.name, batch.name, threads);
  if (!options_.select(name)) return;
  set_threads(threads);
  const Model model = load(folders_.folder(shape));
  const TokenBatch tokens = texts(batch.lengths);
  std::vector<Timer> sides{timer_of([&] { (void)model.forward(tokens); })};
  std::vector<std::string> libraries;
  if (!options_.peer.empty()) {
    const Activations ours = model.forward(tokens);
    for (const char* library : {"transformers", "onnxruntime", "ctranslate2"}) {
      try {
        peer(library).prepare({{"op", "encode"},
                               {"engine", library},
                               {"folder", folders_.folder(shape).string()},
                               {"ids", ids_of(tokens)},
                               {"batches", 1},
                               {"threads", threads}});
        require_near(fmt::format("{} {}", name, library), ours.buffer.span(),
                     peer(library).outputs(), kTolerance);
      } catch (const Error& error) {
        report_.refused(error);
        continue;
      }
      sides.push_back([this, library](int64_t reps) { return peer(library).time(reps); });
      libraries.push_back(library);
    }
  }
  const std::vector<Timing> timings = harness_.race(threads, sides);
  const double flops = forward_flops(shape, batch.lengths) * 1e-9;
  Result result{.name = name, .unit = "GFLOP/s", .ours = flops / timings[0].seconds, .goal = goal};
  result.disturbed = timings[0].disturbed;
  for (size_t i = 0; i < libraries.size(); ++i) {
    const double speed = flops / timings[i + 1].seconds;
    fmt::print(stderr, "{}: ours {:.1f}, {} {:.1f} GFLOP/s, FMA peak {:.1f}{}\n", name, result.ours,
               libraries[i], speed, harness_.fma_peak(threads),
               timings[i + 1].disturbed ? " (disturbed)" : "");
    if (!result.peer || speed > *result.peer) {
      result.peer = speed;
      result.unit = "GFLOP/s, the best peer " + libraries[i];
    }
    result.disturbed |= timings[i + 1].disturbed;
  }
  if (result.peer) result.ratio = result.ours / *result.peer;
  report_.add(result);
}

void ModelBenchmark::statistics(const ModelShape& shape, const Batch& batch, int threads,
                                double goal) {
  const std::string name =
      fmt::format("statistics model={} batch={} threads={}", shape.name, batch.name, threads);
  if (!options_.select(name)) return;
  set_threads(threads);
  const Model model = load(folders_.folder(shape));
  const TokenBatch tokens = texts(batch.lengths);
  StatisticsObserver observer(model, tokens);
  const ForwardOptions observed{.observer = &observer};
  std::vector<Timer> sides{timer_of([&] {
    (void)model.forward(tokens, observed);
    (void)observer.means();
  })};
  if (!options_.peer.empty()) {
    try {
      Peer& transformers = peer("transformers");
      transformers.prepare({{"op", "statistics"},
                            {"folder", folders_.folder(shape).string()},
                            {"ids", ids_of(tokens)},
                            {"threads", threads}});
      (void)observer.means();
      const Activations hidden = model.forward(tokens, observed);
      const std::vector<float> theirs = transformers.outputs();
      const size_t values = hidden.buffer.size();
      require_near(name, hidden.buffer.span(), std::span(theirs).first(values), kTolerance);
      require_near(name + " statistics", observer.means(), std::span(theirs).subspan(values),
                   kTolerance);
    } catch (const Error& error) {
      return report_.refused(error);
    }
    sides.push_back([this](int64_t reps) { return peer("transformers").time(reps); });
  }
  const std::vector<Timing> timings = harness_.race(threads, sides);
  Result result{.name = name,
                .unit = "passes/s",
                .ours = 1 / timings[0].seconds,
                .goal = goal,
                .disturbed = timings[0].disturbed};
  if (timings.size() > 1) {
    result.peer = 1 / timings[1].seconds;
    result.ratio = result.ours / *result.peer;
    result.disturbed |= timings[1].disturbed;
  }
  report_.add(result);
}

/// A pass in which every row uses 6 of 12 heads, beside one with all; the goal is the share of
/// multiply-adds that remains.
void ModelBenchmark::routing(const Batch& batch, int threads) {
  const ModelShape& shape = kRoutedMiniLm;
  const std::string name =
      fmt::format("routing model=minilm shared={} active={} batch={} threads={}", shape.shared,
                  shape.active, batch.name, threads);
  if (!options_.select(name)) return;
  set_threads(threads);
  const Model routed = load(folders_.folder(shape));
  const Model whole = load(folders_.folder(kMiniLm));
  const TokenBatch tokens = texts(batch.lengths);
  const std::vector<Timing> timings =
      harness_.race(threads, {timer_of([&] { (void)routed.forward(tokens); }),
                              timer_of([&] { (void)whole.forward(tokens); })});
  report_.add({.name = name,
               .unit = "of a pass with all heads",
               .ours = timings[0].seconds / timings[1].seconds,
               .goal = routed_flops(shape, batch.lengths) / forward_flops(shape, batch.lengths),
               .higher_is_better = false,
               .goal_is_of_ours = true,
               .disturbed = timings[0].disturbed || timings[1].disturbed});
}

void ModelBenchmark::memory(const ModelShape& shape) {
  const std::string name = fmt::format("memory model={} batch=2x2048", shape.name);
  if (!options_.select(name)) return;
  const std::vector<int64_t> lengths = {2048, 2048};
  Result result{.name = name,
                .unit = "MiB of activations",
                .ours = measure_model_memory(folders_.folder(shape), lengths),
                .goal = 0.05,
                .higher_is_better = false};
  if (!options_.peer.empty()) {
    peers_.clear();  // the peer's growth is measured in a fresh process
    Peer& transformers = peer("transformers");
    transformers.prepare({{"op", "memory"},
                          {"folder", folders_.folder(shape).string()},
                          {"ids", ids_of(texts(lengths))},
                          {"threads", 2}});
    result.peer = transformers.outputs().at(0);
    result.ratio = result.ours / *result.peer;
    peers_.clear();
  }
  report_.add(result);
}

void ModelBenchmark::decoding(const std::filesystem::path& folder, int threads) {
  const std::string name =
      fmt::format("decode model={} threads={}", folder.filename().string(), threads);
  if (!options_.select(name)) return;
  constexpr int64_t kNewTokens = 200;
  set_threads(threads);
  const Model model = load(folder);
  TokenBatch prompt;
  prompt.add(texts({5}, model.config().vocabulary).ids);
  const GenerateOptions options{.max_new_tokens = kNewTokens};
  std::vector<Timer> sides{timer_of([&] { (void)generate(model, prompt, options); })};
  if (!options_.peer.empty()) {
    const std::vector<int32_t> ids = generate(model, prompt, options).front().ids;
    for (const char* dtype : {"float32", "auto"}) {
      peer(dtype).prepare({{"op", "generate"},
                           {"folder", folder.string()},
                           {"ids", prompt.ids},
                           {"tokens", kNewTokens},
                           {"dtype", dtype},
                           {"threads", threads}});
      if (dtype == std::string_view("float32")) {
        try {
          require_near(name, std::vector<float>(ids.begin(), ids.end()), peer(dtype).outputs(),
                       kTolerance);
        } catch (const Error& error) {
          return report_.refused(error);
        }
      }
      sides.push_back([this, dtype](int64_t reps) { return peer(dtype).time(reps); });
    }
  }
  const std::vector<Timing> timings = harness_.race(threads, sides);
  Result result{.name = name,
                .unit = "tokens/s",
                .ours = kNewTokens / timings[0].seconds,
                .goal = 2,
                .disturbed = timings[0].disturbed};
  if (timings.size() > 1) {  // the better of its types
    result.peer = kNewTokens / std::min(timings[1].seconds, timings[2].seconds);
    result.ratio = result.ours / *result.peer;
    result.disturbed |= timings[1].disturbed || timings[2].disturbed;
  }
  report_.add(result);
}

void ModelBenchmark::start_up(const std::filesystem::path& folder) {
  const auto one = [&](const std::string& name, const std::vector<std::string>& command,
                       double milliseconds, double mib) {
    if (!options_.select(name)) return;
    const ProgramRun run = measure_program(command);
    Result result{.name = name,
                  .unit = "ms to the end",
                  .ours = run.seconds * 1e3,
                  .goal = milliseconds,
                  .higher_is_better = false,
                  .goal_is_of_ours = true};
    report_.add(result);
    if (mib == 0) return;
    result.name += " memory";
    result.unit = "MiB resident";
    result.ours = run.resident_mib;
    result.goal = mib;
    report_.add(result);
  };
  const std::string model = folder.filename().string();
  one(fmt::format("start model={} verb=run", model),
      {HEADWISE_PROGRAM, "run", folder.string(), "--text", "A cat sat.", "--json"}, 200, 150);
  one(fmt::format("start model={} verb=inspect", model),
      {HEADWISE_PROGRAM, "inspect", folder.string()}, 50, 0);
}

void ModelBenchmark::run() {
  for (const std::string& folder : options_.models) {
    if (read_config(folder).decoder.layers() == 0) {
      start_up(folder);
    } else {
      for (const int threads : options_.threads) decoding(folder, threads);
    }
  }
  const Batch square{"8x128", std::vector<int64_t>(8, 128)};
  const Batch one{"1x16", {16}};
  const Batch pair{"2x512", {512, 512}};
  const Batch long_one{"1x2048", {2048}};
  for (const ModelShape& shape : {kMiniLm, kBertBase}) {
    for (const int threads : options_.threads) {
      forward(shape, square, threads, 1);
      forward(shape, one, threads, 2);
      forward(shape, mixed_lengths(), threads, 1.6);
      statistics(shape, square, threads, 1.2);
      statistics(shape, pair, threads, 1.4);
      statistics(shape, long_one, threads, 1.7);
    }
    memory(shape);
  }
  for (const int threads : options_.threads) {
    routing(square, threads);
    routing(long_one, threads);
  }
}

}  // namespace
}  // namespace headwise::bench

int main(int argc, char** argv) {
  using namespace headwise::bench;
  if (ran_as_memory_child(argc, argv)) return 0;
  return run_benchmark(
      argc, argv, "bench model: ours, transformers, ONNX Runtime and CTranslate2, interleaved",
      [](const Options& options, Report& report) { ModelBenchmark(options, report).run(); });
}
