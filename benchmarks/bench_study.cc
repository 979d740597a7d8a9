// A whole study, against a PyTorch script that answers the same questions: statistics of all heads,
// zero ablations of every head, of groups of heads beside halves and random draws, and curves.
//
// Ours stops early where a conclusion is clear. The script runs every head over all sentences, and
// as many sets of heads for groups and curves as ours did.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>

#include "core/shuffle.h"
#include "harness.h"
#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/study/study.h"
#include "headwise/text/sample_text.h"
#include "model_problem.h"
#include "observe/adaptive_ablation.h"
#include "peer.h"
#include "report.h"

namespace headwise::bench {
namespace {

using Heads = std::vector<int64_t>;

/// Of numbers of a stage, relative to the largest: libraries order their sums differently.
constexpr double kTolerance = 2e-3;
constexpr double kGoal = 5;
constexpr uint64_t kSeed = 0;

/// Stages that both sides answer, as a study names them. The first one has statistics, the others
/// ablate.
constexpr std::array<const char*, 4> kStages = {"attention", "ablation", "groups", "plan"};
using StageSeconds = std::array<double, kStages.size()>;

constexpr int64_t kRandomSets = 10;    // beside the heads of the plan
constexpr int64_t kCurveDraws = 2;     // random orders of a curve in a study
constexpr double kSimilarSizes = 1.1;  // of groups that share draws, see observe/group_ablation.h

double sum(const StageSeconds& seconds) {
  return std::accumulate(seconds.begin(), seconds.end(), 0.);
}

/// A set of heads whose loss is asked for.
struct Question {
  Heads heads{};                 // ascending
  std::optional<double> ours{};  // the answer that the study wrote down, if it did
  int64_t examples = 0;          // that our answer is of
};

/// The sets that one stage ablates, each once, and the number of examples.
struct Questions {
  std::vector<Question> all{};
  int64_t examples = 0;

  void add(Heads heads, std::optional<double> ours = {}, int64_t n = 0) {
    std::ranges::sort(heads);
    if (heads.empty() || std::ranges::find(all, heads, &Question::heads) != all.end()) return;
    all.push_back({std::move(heads), ours, n});
  }

  /// At most so many, evenly spaced.
  std::vector<Question> some(size_t most) const {
    const size_t count = std::min(most, all.size());
    std::vector<Question> chosen;
    for (size_t i = 0; i < count; ++i) chosen.push_back(all[i * all.size() / count]);
    return chosen;
  }
};

/// What a study ablated.
class StudyQuestions {
 public:
  StudyQuestions(const Model& model, const Study& study, int64_t examples)
      : study_(study), examples_(examples), random_(kSeed) {
    for (const HeadEvidence& head : study.evidence.heads) {
      numbers_.emplace(head.head, std::ssize(numbers_));
    }
    least_ = std::ssize(model.attentions());  // a plan leaves a head in each
  }

  Questions of(const std::string& stage) {
    if (stage == "ablation") return single_heads();
    return stage == "groups" ? groups() : curves();
  }

 private:
  Questions single_heads() const {
    Questions questions{.examples = examples_};
    for (const HeadEvidence& head : study_.evidence.heads) {
      const Measure& measure = *head.measures.find("ablation_zero");
      questions.add({numbers_.at(head.head)}, measure.value, measure.n);
    }
    return questions;
  }

  Questions groups() {
    Questions questions;
    std::map<int64_t, int64_t> draws;  // by numbers of heads
    for (const GroupEvidence& group : study_.evidence.groups) {
      const Heads heads = numbers_of(group.heads);
      const Measure& whole = *group.measures.find("ablation_zero");
      questions.examples = std::max(questions.examples, whole.n);
      questions.add(heads, whole.value, whole.n);
      for (int64_t i = 0; i < count_of(group, "ablation_zero_half"); ++i) {
        questions.add(draw(heads, (std::ssize(heads) + 1) / 2, random_));
      }
      int64_t& most = draws[std::ssize(heads)];
      most = std::max(most, count_of(group, "ablation_zero_random"));
    }
    for (auto begin = draws.begin(), end = begin; begin != draws.end(); begin = end) {
      int64_t count = 0, size = 0;
      for (; end != draws.end() &&
             static_cast<double>(end->first) <= kSimilarSizes * static_cast<double>(begin->first);
           ++end) {
        size = end->first;
        count = std::max(count, end->second);
      }
      for (int64_t i = 0; i < count; ++i) questions.add(draw(all_heads(), size, random_));
    }
    return questions;
  }

  /// The plan itself beside random sets, the curve of its order, and those of random orders.
  Questions curves() {
    Questions questions{.examples = examples_};
    const Plan& plan = study_.plan;
    questions.add(numbers_of(plan.drop), plan.expected.at("loss"), examples_);
    const Heads order = numbers_of(
        headwise::plan(study_.verdict, {.heads = least_, .order = HeadOrder::ablation}).drop);
    for (const CurvePoint& point : plan.curves.at(plan.order)) {
      questions.add({order.begin(), order.begin() + point.removed}, point.loss, examples_);
    }
    for (int64_t i = 0; i < kRandomSets; ++i) {
      questions.add(draw(all_heads(), std::ssize(plan.drop), random_));
    }
    for (int64_t i = 0; i < kCurveDraws; ++i) {
      for (const CurvePoint& point : plan.curves.at("random")) {
        questions.add(draw(all_heads(), point.removed, random_));
      }
    }
    return questions;
  }

  Heads all_heads() const {
    Heads heads(numbers_.size());
    std::iota(heads.begin(), heads.end(), 0);
    return heads;
  }

  Heads numbers_of(const std::vector<std::string>& names) const {
    Heads heads;
    for (const std::string& name : names) heads.push_back(numbers_.at(name));
    return heads;
  }

  static int64_t count_of(const GroupEvidence& group, const char* measure) {
    const Measure* const found = group.measures.find(measure);
    return found == nullptr ? 0 : found->n;
  }

  const Study& study_;
  int64_t examples_, least_;
  Random random_;
  std::map<std::string, int64_t> numbers_;  // of heads among all of the model
};

/// The stages' seconds of every run of a side.
struct Runs {
  std::vector<StageSeconds> seconds{};

  /// Those of the run that took nearest to this.
  StageSeconds nearest(double all) const {
    return *std::ranges::min_element(
        seconds, {}, [&](const StageSeconds& stages) { return std::abs(sum(stages) - all); });
  }
};

/// A study of one model, which leaves its files in a folder that goes away.
class OurStudy {
 public:
  /// Without a tokenizer, texts have random tokens and the lengths of the built-in sentences.
  OurStudy(std::filesystem::path folder, bool tokenized)
      : folder_(std::move(folder)), model_(load(folder_)) {
    if (tokenized) tokenizer_.emplace(Tokenizer::load(folder_));
    std::istringstream text{std::string(sample_text())};
    std::vector<int64_t> lengths;
    for (std::string line; std::getline(text, line);) {
      if (tokenized) {
        data_.corpus.texts.push_back(observed_text(model_, *tokenizer_, line, "built-in text"));
        texts_.add(data_.corpus.texts.back().ids);
      } else {
        lengths.push_back(std::ranges::count(line, ' ') + 4);  // with marks around the sentence
      }
    }
    if (!tokenized) make_texts(lengths);
    data_.evaluation = unlabelled(texts_);
  }

  /// Times the stages that both sides answer.
  Sample time() {
    const TemporaryFolder out;
    const Sample all = timer_of([&] {
      study_ =
          study(model_,
                {.data = data_, .held_out = data_.evaluation},  // both sides run the same sentences
                {.probes = tokenizer_.has_value(), .seed = kSeed}, out.path());
    })(1);
    StageSeconds& stages = runs_.seconds.emplace_back();
    for (size_t i = 0; i < kStages.size(); ++i) {
      const auto stage = std::ranges::find(study_.stages, kStages[i], &StudyStage::name);
      stages[i] = stage == study_.stages.end() ? 0 : stage->seconds;
    }
    return {sum(stages), sum(stages) * all.cpu_seconds / all.seconds};
  }

  const std::filesystem::path& folder() const { return folder_; }
  const Model& model() const { return model_; }
  const TokenBatch& texts() const { return texts_; }
  const Study& last() const { return study_; }
  const Runs& runs() const { return runs_; }
  void forget_runs() { runs_ = {}; }

 private:
  void make_texts(const std::vector<int64_t>& lengths) {
    texts_ = bench::texts(lengths);
    for (int64_t b = 0; b < texts_.sequences(); ++b) {
      const std::span<const int32_t> ids = text_of(texts_, b);
      data_.corpus.texts.push_back({.ids = {ids.begin(), ids.end()}});
    }
  }

  std::filesystem::path folder_;
  Model model_;
  std::optional<Tokenizer> tokenizer_;
  ObserveData data_;
  TokenBatch texts_;
  Study study_;
  Runs runs_;
};

/// The script's answers to what a study asked.
class PeerStudy {
 public:
  /// Of each stage the script runs so many sets as all sentences times `passes` are, and its time
  /// counts for all sets: their passes cost the same, and all of them take many minutes.
  PeerStudy(Peer& peer, const OurStudy& ours, int64_t threads, int64_t passes)
      : peer_(peer), heads_(ours.model().heads()) {
    order_ = order_of_examples(ours.texts().sequences(), kSeed);
    StudyQuestions questions(ours.model(), ours.last(), ours.texts().sequences());
    nlohmann::json stages = nlohmann::json::array();
    for (size_t i = 1; i < kStages.size(); ++i) {
      const Questions wanted = questions.of(kStages[i]);
      const int64_t most = passes * std::ssize(order_) / std::max<int64_t>(1, wanted.examples);
      const Stage& stage =
          stages_.emplace_back(Stage{wanted.some(most), wanted.examples, std::ssize(wanted.all)});
      nlohmann::json sets = nlohmann::json::array();
      for (const Question& question : stage.asked) sets.push_back(question.heads);
      stages.push_back({{"texts", std::vector(order_.begin(), order_.begin() + stage.examples)},
                        {"sets", sets}});
      fmt::print(stderr, "{}: {} sets of heads over {} sentences; the peer runs {} of them\n",
                 kStages[i], wanted.all.size(), stage.examples, stage.asked.size());
    }
    peer_.prepare({{"folder", ours.folder().string()},
                   {"ids", ids_of(ours.texts())},
                   {"stages", stages},
                   {"threads", threads}});
  }

  /// Throws Error unless the script's answers are those of the study.
  void check(const std::string& name, const Evidence& evidence) {
    const std::vector<float> outputs = peer_.outputs();
    std::vector<float> entropy;
    for (const HeadEvidence& head : evidence.heads) {
      entropy.push_back(static_cast<float>(head.measures.find("entropy")->value));
    }
    require_near(name + " attention", entropy, std::span(outputs).first(heads_), kTolerance);
    size_t at = heads_ + kStages.size() + 1;
    for (size_t i = 0; i < stages_.size(); ++i) {
      std::vector<float> ours, peers;
      for (const Question& question : stages_[i].asked) {
        const auto losses = std::span(outputs).subspan(at, stages_[i].examples);
        at += losses.size();
        if (!question.ours) continue;
        ours.push_back(static_cast<float>(*question.ours));
        const auto first = losses.first(question.examples);
        peers.push_back(std::accumulate(first.begin(), first.end(), 0.f) /
                        static_cast<float>(first.size()));
      }
      require_near(fmt::format("{} {}", name, kStages[i + 1]), ours, peers, kTolerance);
    }
  }

  Sample time() {
    const Sample sample = peer_.time(1);
    const std::vector<float> outputs = peer_.outputs();
    const std::span times = std::span(outputs).subspan(heads_, kStages.size() + 1);
    StageSeconds& seconds = runs_.seconds.emplace_back();
    seconds[0] = times[0];
    for (size_t i = 1; i < seconds.size(); ++i) seconds[i] = times[i + 1] * stages_[i - 1].scale();
    seconds[1] += times[1];  // the whole model, once
    return {sum(seconds), sum(seconds) * sample.cpu_seconds / sample.seconds};
  }

  const Runs& runs() const { return runs_; }

 private:
  struct Stage {
    std::vector<Question> asked{};
    int64_t examples = 0, all = 0;  // sets of heads

    double scale() const {
      return asked.empty() ? 0 : static_cast<double>(all) / static_cast<double>(asked.size());
    }
  };

  Peer& peer_;
  size_t heads_;
  std::vector<int64_t> order_;  // of examples, as a study takes them
  std::vector<Stage> stages_;   // all but the first
  Runs runs_;
};

class StudyBenchmark {
 public:
  StudyBenchmark(const Options& options, Report& report)
      : options_(options),
        report_(report),
        harness_({.samples = options.quick ? 1 : 3,
                  .least_samples = options.quick ? 1 : 3,
                  .race_seconds = options.quick ? 60. : 600.}) {}

  void run() {
    for (const int threads : options_.threads) {
      if (options_.models.empty()) {
        measure(kBertBase.name, threads,
                [&] { return OurStudy(folders_.folder(kBertBase), false); });
      }
      for (const std::string& folder : options_.models) {
        // With or without a slash at its end.
        const std::string name = (std::filesystem::path(folder) / "").parent_path().filename();
        measure(name, threads, [&] { return OurStudy(folder, true); });
      }
    }
  }

 private:
  template <class F>
  void measure(const std::string& model, int threads, const F& make) {
    const auto name = [&](const char* stage) {
      return fmt::format("study model={} stage={} threads={}", model, stage, threads);
    };
    if (!options_.select(name("all")) &&
        std::ranges::none_of(kStages, [&](auto stage) { return options_.select(name(stage)); })) {
      return;
    }
    set_threads(threads);
    OurStudy ours = make();
    std::vector<Timer> sides{repeated([&] { return ours.time(); })};
    std::unique_ptr<PeerStudy> peer;
    if (!options_.peer.empty()) {
      ours.time();  // says what the peer is asked
      ours.forget_runs();
      peer = prepare_peer(name("all"), ours, threads);
      if (peer != nullptr) sides.push_back(repeated([&] { return peer->time(); }));
    }
    const std::vector<Timing> timings = harness_.race(threads, sides);
    const bool disturbed = std::ranges::any_of(timings, &Timing::disturbed);
    const StageSeconds our_stages = ours.runs().nearest(timings[0].seconds);
    StageSeconds peer_stages{};
    if (peer != nullptr) peer_stages = peer->runs().nearest(timings[1].seconds);
    for (size_t i = 0; i < kStages.size(); ++i) {
      add(name(kStages[i]), our_stages[i], peer_stages[i], 1, disturbed);
    }
    add(name("all"), timings[0].seconds, peer == nullptr ? 0 : timings[1].seconds, kGoal,
        disturbed);
  }

  /// The peer's side, if its numbers are ours.
  std::unique_ptr<PeerStudy> prepare_peer(const std::string& name, const OurStudy& ours,
                                          int threads) {
    try {
      if (peer_ == nullptr) peer_ = std::make_unique<Peer>(options_, "study");
      auto peer = std::make_unique<PeerStudy>(*peer_, ours, threads, options_.quick ? 12 : 24);
      peer->check(name, ours.last().evidence);
      return peer;
    } catch (const Error& error) {
      report_.refused(error);
      return nullptr;
    }
  }

  static Timer repeated(std::function<Sample()> once) {
    return [once = std::move(once)](int64_t reps) {
      Sample all;
      for (int64_t rep = 0; rep < reps; ++rep) {
        const Sample sample = once();
        all.seconds += sample.seconds;
        all.cpu_seconds += sample.cpu_seconds;
      }
      return all;
    };
  }

  /// 0 seconds: the side did not run it.
  void add(const std::string& name, double ours, double peer, double goal, bool disturbed) {
    if (ours <= 0) return;
    Result result{.name = name,
                  .unit = "per hour",
                  .ours = 3600 / ours,
                  .goal = goal,
                  .disturbed = disturbed};
    if (peer > 0) {
      result.peer = 3600 / peer;
      result.ratio = peer / ours;
    }
    fmt::print(stderr, "{}: {:.3g} s, peer {:.3g} s\n", name, ours, peer);
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
      argc, argv, "bench study: ours and a PyTorch script, interleaved",
      [](const Options& options, Report& report) { StudyBenchmark(options, report).run(); });
}
