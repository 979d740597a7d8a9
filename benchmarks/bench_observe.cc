// Observation: label-free statistics, ablation of every head and gradients of gates, against plain
// PyTorch, and against bare passes of our own.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <span>

#include "harness.h"
#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/observe/observe.h"
#include "model_problem.h"
#include "peer.h"
#include "report.h"

namespace headwise::bench {
namespace {

/// Of a difference of losses, relative to the largest: libraries order their sums differently.
constexpr double kTolerance = 2e-3;

/// The first texts of a file, a line each.
TokenBatch read_texts(const std::string& file, const Tokenizer& tokenizer, int64_t most) {
  std::ifstream in(file);
  TokenBatch texts;
  for (std::string line; texts.texts() < most && std::getline(in, line);) {
    if (!line.empty()) texts.add(tokenizer.encode(line.substr(0, line.find('\t'))).ids);
  }
  return texts;
}

/// What one head's measure was, of all heads.
std::vector<float> values_of(const Evidence& evidence, const std::string& measure) {
  std::vector<float> values;
  for (const HeadEvidence& head : evidence.heads) {
    const Measure* const found = head.measures.find(measure);
    values.push_back(found == nullptr ? NAN : static_cast<float>(found->value));
  }
  return values;
}

class ObserveBenchmark {
 public:
  ObserveBenchmark(const Options& options, Report& report)
      : options_(options),
        report_(report),
        harness_({.sample_seconds = 0.05,
                  .samples = options.quick ? 3 : 7,
                  .race_seconds = options.quick ? 20. : 60.}) {}

  void run() {
    for (const int threads : options_.threads) {
      if (!options_.models.empty() && !options_.texts.empty()) sentences(threads);
      documents(threads);
      ablation(kBertBase, LossTask::fidelity, 1, 2, threads);
      ablation(kGpt2, LossTask::lm, 1, 1.7, threads);
      ablation(kGpt2, LossTask::lm, 0.1, 2.2, threads);
      gradient(threads);
    }
  }

 private:
  void sentences(int threads) {
    const std::string folder = options_.models.front();
    const Tokenizer tokenizer = Tokenizer::load(folder);
    look("look model=minilm texts=sentences", folder,
         read_texts(options_.texts.front(), tokenizer, options_.quick ? 300 : 2000), 1.5, threads);
  }

  void documents(int threads) {
    look("look model=minilm texts=1x2048", folders_.folder(kMiniLm).string(), texts({2048}), 1.7,
         threads);
  }

  /// All label-free statistics against the peer's, and against a bare pass.
  void look(const std::string& title, const std::string& folder, const TokenBatch& texts,
            double goal, int threads) {
    const std::string name = fmt::format("{} threads={}", title, threads);
    if (!options_.select(name)) return;
    set_threads(threads);
    const Model model = Model::load(folder);
    ObserveData data;
    for (int64_t b = 0; b < texts.texts(); ++b) {
      const std::span<const int32_t> ids = text_of(texts, b);
      data.corpus.texts.push_back({.ids = {ids.begin(), ids.end()}});
    }
    const ObserveOptions how{.know = false, .relate = false, .matter = false, .probes = false};
    const auto watched = [&] { return observe(model, nullptr, data, how); };
    const auto bare = [&] {
      // The same batches.
      TokenBatch batch;
      for (int64_t b = 0; b < texts.texts(); ++b) {
        const std::span<const int32_t> ids = text_of(texts, b);
        if (batch.rows() > 0 && batch.rows() + std::ssize(ids) > 2048) {
          (void)model.hidden(batch);
          batch = {};
        }
        batch.add(ids);
      }
      (void)model.hidden(batch);
    };
    std::vector<Timer> sides{timer_of([&] { (void)watched(); }), timer_of(bare)};
    add_peer(
        name, {{"op", "look"}, {"folder", folder}, {"ids", ids_of(texts)}, {"threads", threads}},
        [&] { return values_of(watched(), "entropy"); }, sides);
    const std::vector<Timing> timings = harness_.race(threads, sides);
    add(name, "passes/s", timings, 0, 2, goal);
    report_.add({.name = name + " beside=bare",
                 .unit = "of a bare pass",
                 .ours = timings[0].seconds / timings[1].seconds,
                 .goal = 1.1,
                 .higher_is_better = false,
                 .goal_is_of_ours = true,
                 .disturbed = timings[0].disturbed || timings[1].disturbed});
  }

  EvaluationSet evaluation(LossTask task, double positions) const {
    const TokenBatch tokens =
        texts({128, 128, 128, 128}, task == LossTask::lm ? kGpt2Vocabulary : kVocabulary);
    EvaluationSet set = task == LossTask::lm ? next_tokens(tokens) : unlabelled(tokens);
    if (positions < 1) sample_positions(set, positions, 0);
    return set;
  }

  /// Zero ablation of every head.
  void ablation(const ModelShape& shape, LossTask task, double positions, double goal,
                int threads) {
    const std::string name =
        fmt::format("ablation model={} positions={} threads={}", shape.name, positions, threads);
    if (!options_.select(name)) return;
    set_threads(threads);
    const std::filesystem::path folder = folders_.folder(shape);
    const Model model = Model::load(folder);
    const EvaluationSet set = evaluation(task, positions);
    const ImportanceOptions how{.gradient = false, .ablation_mean = false, .resamples = 10};
    const auto ablate = [&] {
      Evidence evidence = no_evidence(model);
      observe_importance(model, folder, set, how, evidence);
      return evidence;
    };
    std::vector<Timer> sides{timer_of([&] { (void)ablate(); }),
                             timer_of([&] { (void)model.hidden(set.examples.all.source); })};
    add_peer(
        name,
        {{"op", "ablation"},
         {"folder", folder.string()},
         {"task", task == LossTask::lm ? "lm" : "fidelity"},
         {"ids", ids_of(set.examples.all.source)},
         {"positions", set.positions},
         {"threads", threads}},
        [&] { return values_of(ablate(), "ablation_zero"); }, sides);
    const std::vector<Timing> timings = harness_.race(threads, sides);
    add(name, "sweeps/s", timings, 0, 2, goal);
    if (task != LossTask::fidelity) return;  // a bare pass has no output layer
    report_.add({.name = name + " beside=bare",
                 .unit = "bare passes",
                 .ours = timings[0].seconds / timings[1].seconds,
                 .goal = 78,
                 .higher_is_better = false,
                 .goal_is_of_ours = true,
                 .disturbed = timings[0].disturbed || timings[1].disturbed});
  }

  /// Gradients of gates, per example.
  void gradient(int threads) {
    for (const bool together : {true, false}) {
      const std::string name = fmt::format("gradient model=gpt2 peer={} threads={}",
                                           together ? "batch" : "one-by-one", threads);
      if (!options_.select(name)) continue;
      set_threads(threads);
      const std::filesystem::path folder = folders_.folder(kGpt2);
      const Model model = Model::load(folder);
      const EvaluationSet set = evaluation(LossTask::lm, 1);
      const ImportanceOptions how{.ablation_zero = false, .ablation_mean = false};
      const auto weigh = [&] {
        Evidence evidence = no_evidence(model);
        observe_importance(model, folder, set, how, evidence);
        return evidence;
      };
      std::vector<Timer> sides{timer_of([&] { (void)weigh(); })};
      add_peer(
          name,
          {{"op", "gradient"},
           {"folder", folder.string()},
           {"ids", ids_of(set.examples.all.source)},
           {"together", together},
           {"threads", threads}},
          [&] { return values_of(weigh(), "gradient"); }, sides);
      add(name, "sets/s", harness_.race(threads, sides), 0, 1, together ? 1.5 : 4);
    }
  }

  /// The peer's side, if its numbers are ours.
  void add_peer(const std::string& name, const nlohmann::json& one_case,
                const std::function<std::vector<float>()>& ours, std::vector<Timer>& sides) {
    if (options_.peer.empty()) return;
    try {
      if (peer_ == nullptr) peer_ = std::make_unique<Peer>(options_.peer, "observe");
      peer_->prepare(one_case);
      require_near(name, ours(), peer_->outputs(), kTolerance);
      sides.push_back([this](int64_t reps) { return peer_->time(reps); });
    } catch (const Error& error) {
      report_.refused(error);
    }
  }

  void add(const std::string& name, const std::string& unit, const std::vector<Timing>& timings,
           size_t ours, size_t peer, double goal) {
    Result result{.name = name,
                  .unit = unit,
                  .ours = 1 / timings[ours].seconds,
                  .goal = goal,
                  .disturbed = timings[ours].disturbed};
    if (peer < timings.size()) {
      result.peer = 1 / timings[peer].seconds;
      result.ratio = result.ours / *result.peer;
      result.disturbed |= timings[peer].disturbed;
    }
    report_.add(result);
  }

  const Options& options_;
  Report& report_;
  Harness harness_;
  ModelFolders folders_;
  std::unique_ptr<Peer> peer_;
};

}  // namespace
}  // namespace headwise::bench

int main(int argc, char** argv) {
  using namespace headwise::bench;
  return run_benchmark(
      argc, argv, "bench observe: ours and plain PyTorch, interleaved",
      [](const Options& options, Report& report) { ObserveBenchmark(options, report).run(); });
}
