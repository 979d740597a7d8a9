// Observation: label-free statistics, ablation of every head, racing and gradients of gates,
// against plain PyTorch, and against bare passes and exact sweeps of our own.
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
#include "headwise/train/trainable_model.h"
#include "model_problem.h"
#include "observe/gate_gradients.h"
#include "peer.h"
#include "process_status.h"
#include "report.h"
#include "subprocess.h"

namespace headwise::bench {
namespace {

/// Of a difference of losses, relative to the largest: libraries order their sums differently.
constexpr double kTolerance = 2e-3;

constexpr double kStandingTolerance = 0.005;  // of racing
constexpr std::string_view kMemoryChild = "--memory-child";

/// What label-free statistics are for: nothing else is measured.
ObserveOptions look_only() { return {.measures = {"attention"}, .probes = false}; }

ObserveData corpus_of(const TokenBatch& texts) {
  ObserveData data;
  for (int64_t b = 0; b < texts.sequences(); ++b) {
    const std::span<const int32_t> ids = text_of(texts, b);
    data.corpus.texts.push_back({.ids = {ids.begin(), ids.end()}});
  }
  return data;
}

/// The first texts of a file, a line each.
TokenBatch read_texts(const std::string& file, const Tokenizer& tokenizer, int64_t most) {
  std::ifstream in(file);
  TokenBatch texts;
  for (std::string line; texts.sequences() < most && std::getline(in, line);) {
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
                  .least_samples = options.quick ? 1 : 3,  // some take minutes
                  .race_seconds = options.quick ? 20. : 60.}) {}

  void run() {
    for (const int threads : options_.threads) {
      if (!options_.models.empty() && !options_.texts.empty()) sentences(threads);
      documents(threads);
      ablation(kBertBase, LossTask::fidelity, {.goal = 2}, threads);
      ablation(kGpt2, LossTask::lm, {.goal = 1.7}, threads);
      ablation(kGpt2, LossTask::lm, {.positions = 0.1, .peer = "sampled", .goal = 2.2}, threads);
      ablation(kGpt2, LossTask::lm, {.positions = 0.1, .peer = "whole", .goal = 3}, threads);
      gradient(threads);
      if (!options_.models.empty() && !options_.texts.empty()) race(threads);
    }
    memory();
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
    const Model model = load(folder);
    const ObserveData data = corpus_of(texts);
    const auto observed = [&] { return observe(model, data, look_only()); };
    const auto bare = [&] {
      // The same batches.
      TokenBatch batch;
      for (int64_t b = 0; b < texts.sequences(); ++b) {
        const std::span<const int32_t> ids = text_of(texts, b);
        if (batch.rows() > 0 && batch.rows() + std::ssize(ids) > 2048) {
          (void)model.forward(batch);
          batch = {};
        }
        batch.add(ids);
      }
      (void)model.forward(batch);
    };
    std::vector<Timer> sides{timer_of([&] { (void)observed(); }), timer_of(bare)};
    add_peer(
        name, {{"op", "look"}, {"folder", folder}, {"ids", ids_of(texts)}, {"threads", threads}},
        [&] { return values_of(observed(), "entropy"); }, sides);
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
  struct AblationRow {
    double positions = 1;        // the share of them that our loss is taken at
    std::string peer = "whole";  // or "sampled": so is the peer's
    double goal = 0;
  };
  void ablation(const ModelShape& shape, LossTask task, const AblationRow& row, int threads) {
    const std::string name = fmt::format("ablation model={} positions={} peer={} threads={}",
                                         shape.name, row.positions, row.peer, threads);
    if (!options_.select(name)) return;
    set_threads(threads);
    const std::filesystem::path folder = folders_.folder(shape);
    const Model model = load(folder);
    const EvaluationSet set = evaluation(task, row.positions);
    const ImportanceOptions params{.gradient = false, .ablation_mean = false, .resamples = 10};
    const auto ablate = [&] {
      Evidence evidence = no_evidence(model);
      observe_importance(model, set, params, evidence);
      return evidence;
    };
    std::vector<Timer> sides{timer_of([&] { (void)ablate(); }),
                             timer_of([&] { (void)model.forward(set.examples.all.source); })};
    const bool alike = row.positions == 1 || row.peer == "sampled";  // both sides' losses
    add_peer(name,
             {{"op", "ablation"},
              {"folder", folder.string()},
              {"task", task == LossTask::lm ? "lm" : "fidelity"},
              {"ids", ids_of(set.examples.all.source)},
              {"positions", alike ? set.positions : std::vector<std::vector<int32_t>>()},
              {"every", kPeerCloses},
              {"threads", threads}},
             alike ? [&] { return every(kPeerCloses, values_of(ablate(), "ablation_zero")); }
                   : Numbers(),
             sides);
    if (sides.size() > 2) {
      sides[2] = [of_rows = sides[2]](int64_t reps) {
        const Sample sample = of_rows(reps);
        return Sample{sample.seconds * kPeerCloses, sample.cpu_seconds * kPeerCloses};
      };
    }
    const std::vector<Timing> timings = harness_.race(threads, sides);
    add(name, "sweeps/s", timings, 0, 2, row.goal);
    if (task != LossTask::fidelity) return;  // a bare pass has no output layer
    report_.add({.name = name + " beside=bare",
                 .unit = "bare passes",
                 .ours = timings[0].seconds / timings[1].seconds,
                 .goal = 78,
                 .higher_is_better = false,
                 .goal_is_of_ours = true,
                 .disturbed = timings[0].disturbed || timings[1].disturbed});
  }

  /// Gradients of gates, per example: of texts of one length, of sentences, and of sentences that
  /// are classified, by the given model with an output made anew.
  void gradient(int threads) {
    const auto next = [&](const char* of, const TokenBatch& tokens) {
      gradient(
          fmt::format("gradient model=gpt2 texts={}", of), [&] { return folders_.folder(kGpt2); },
          next_tokens(tokens), threads);
    };
    next("4x128", texts({128, 128, 128, 128}, kGpt2Vocabulary));
    if (options_.models.empty() || options_.texts.empty()) return;
    const std::string& given = options_.models.front();
    const TokenBatch sentences = read_texts(options_.texts.front(), Tokenizer::load(given), 64);
    next("sentences", sentences);
    EvaluationSet classified = unlabelled(sentences);
    classified.task = LossTask::classify;
    for (int32_t b = 0; b < sentences.sequences(); ++b) {
      classified.examples.all.labels.push_back(b % 2);
    }
    const TemporaryFolder folder;
    gradient(
        "gradient model=minilm loss=classify texts=sentences",
        [&] {
          if (!exists(folder.path() / "config.json")) {
            TrainableModel::load(given, {.task = Task::classify, .labels = {"0", "1"}})
                .save(folder.path());
          }
          return folder.path();
        },
        classified, threads);
  }

  void gradient(const std::string& title, const std::function<std::filesystem::path()>& make_folder,
                const EvaluationSet& set, int threads) {
    for (const bool together : {true, false}) {
      const std::string name =
          fmt::format("{} peer={} threads={}", title, together ? "batch" : "one-by-one", threads);
      if (!options_.select(name)) continue;
      set_threads(threads);
      const std::filesystem::path folder = make_folder();
      const Model model = load(folder);
      const auto measure_importance = [&] {
        const std::vector<double> scores =
            gate_gradients(model, SentencePooling::find_or_mean(folder), set, {}).scores;
        return std::vector<float>(scores.begin(), scores.end());
      };
      std::vector<Timer> sides{timer_of([&] { (void)measure_importance(); })};
      add_peer(name,
               {{"op", "gradient"},
                {"folder", folder.string()},
                {"ids", ids_of(set.examples.all.source)},
                {"classes",
                 set.task == LossTask::classify ? set.examples.all.labels : std::vector<int32_t>()},
                {"together", together},
                {"threads", threads}},
               measure_importance, sides);
      add(name, "sets/s", harness_.race(threads, sides), 0, 1, together ? 1.5 : 4);
    }
  }

  /// Stopping early against the exact sweep of the whole set. Each takes long enough to be run
  /// once.
  void race(int threads) {
    const std::string name = fmt::format("race model=minilm loss=fidelity threads={}", threads);
    if (!options_.select(name)) return;
    set_threads(threads);
    const std::string folder = options_.models.front();
    const Model model = load(folder);
    const EvaluationSet set = unlabelled(
        read_texts(options_.texts.front(), Tokenizer::load(folder), options_.quick ? 200 : 1000));
    ImportanceOptions params{.gradient = false, .ablation_mean = false};
    std::vector<Evidence> found;
    std::vector<double> seconds;
    for (const bool raced : {false, true}) {
      if (raced) params.adaptive_tolerance = kStandingTolerance;
      found.push_back(no_evidence(model));
      seconds.push_back(
          timer_of([&] { observe_importance(model, set, params, found.back()); })(1).seconds);
    }
    int64_t same = 0;
    for (int64_t h = 0; h < model.heads(); ++h) {
      same += standing_of(found[0], h) == standing_of(found[1], h);
    }
    report_.add({.name = name,
                 .unit = "of the exact sweep's speed",
                 .ours = seconds[0] / seconds[1],
                 .goal = 4,
                 .goal_is_of_ours = true});
    report_.add({.name = name + " standing=same",
                 .unit = "of all heads",
                 .ours = static_cast<double>(same) / static_cast<double>(model.heads()),
                 .goal = 0.95,
                 .goal_is_of_ours = true});
  }

  static Standing standing_of(const Evidence& evidence, int64_t head) {
    return standing(*evidence.heads[head].measures.find("ablation_zero")->interval,
                    tolerance_of(LossTask::fidelity, evidence.loss->value, kStandingTolerance),
                    LossTask::fidelity);
  }

  /// The whole process, beside the maps that others store.
  void memory() {
    const ModelShape& shape = kLongMiniLm;
    const std::string name = fmt::format("memory model={} N={}", shape.name, shape.positions);
    if (!options_.select(name)) return;
    Subprocess child({"/proc/self/exe", std::string(kMemoryChild), folders_.folder(shape).string(),
                      fmt::format("{}", shape.positions)});
    const auto weights = static_cast<double>(shape.layers * shape.heads) *
                         static_cast<double>(shape.positions) *
                         static_cast<double>(shape.positions);
    report_.add({.name = name,
                 .unit = "MiB resident, and of maps",
                 .ours = std::stod(child.read_line()),
                 .peer = weights * sizeof(float) / (1 << 20),
                 .goal = 1024,
                 .higher_is_better = false,
                 .goal_is_of_ours = true});
  }

  /// The peer closes every such head, and its time is that of so many such rounds: all its passes
  /// cost the same, and 144 of them take minutes.
  static constexpr int64_t kPeerCloses = 8;

  static std::vector<float> every(int64_t step, const std::vector<float>& values) {
    std::vector<float> some;
    for (size_t i = 0; i < values.size(); i += step) some.push_back(values[i]);
    return some;
  }

  using Numbers = std::function<std::vector<float>()>;

  /// The peer's side, if its numbers are ours; without any of ours they are not compared.
  void add_peer(const std::string& name, const nlohmann::json& one_case, const Numbers& ours,
                std::vector<Timer>& sides) {
    if (options_.peer.empty()) return;
    try {
      if (peer_ == nullptr) peer_ = std::make_unique<Peer>(options_, "observe");
      peer_->prepare(one_case);
      if (ours) require_near(name, ours(), peer_->outputs(), kTolerance);
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

/// True if this process was started to see how much memory statistics of one long text take.
bool ran_as_memory_child(int argc, char** argv) {
  if (argc != 4 || argv[1] != kMemoryChild) return false;
  const Model model = load(argv[2]);
  (void)observe(model, corpus_of(texts({std::stoll(argv[3])})), look_only());
  fmt::print("{}\n", static_cast<double>(status_kib("VmHWM")) / 1024);
  return true;
}

}  // namespace
}  // namespace headwise::bench

int main(int argc, char** argv) {
  using namespace headwise::bench;
  if (ran_as_memory_child(argc, argv)) return 0;
  return run_benchmark(
      argc, argv, "bench observe: ours and plain PyTorch, interleaved",
      [](const Options& options, Report& report) { ObserveBenchmark(options, report).run(); });
}
