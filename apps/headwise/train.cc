// headwise train: a model from settings and data, with a line that says how it goes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/train/trainer.h"
#include "io/file.h"
#include "verb.h"

namespace headwise::program {
namespace {

constexpr size_t kLargestSummary = 1 << 24;

struct TrainOptions {
  std::string settings{};
  bool resume = false;
};

/// "8 heads of 32", or "4 to 8 heads".
std::string heads_of(const ModelConfig& config) {
  std::set<size_t> counts;
  std::set<int64_t> widths;
  for (const AttentionSite& site : attention_sites(config)) {
    counts.insert(site.heads.size());
    widths.insert(site.head_dim);
  }
  if (counts.empty()) return "no heads";
  if (counts.size() > 1) {
    return fmt::format("{} to {} heads by layer", *counts.begin(), *counts.rbegin());
  }
  const std::string many =
      *counts.begin() == 1 ? "1 head" : fmt::format("{} heads", *counts.begin());
  return widths.size() == 1 ? fmt::format("{} of {}", many, *widths.begin()) : many;
}

std::string layers_of(const ModelConfig& config) {
  return config.encoder_decoder()
             ? fmt::format("{}+{} layers", config.encoder.layers(), config.decoder.layers())
             : fmt::format("{} layers", config.encoder.layers() + config.decoder.layers());
}

/// "loss 2.103, perplexity 8.19, accuracy 61.2 %, BLEU 31.04"
std::string figures(const Evaluation& evaluation, TrainTask task) {
  std::string text = fmt::format("loss {:.4f}", evaluation.loss);
  if (task != TrainTask::similarity && task != TrainTask::classification) {
    text += fmt::format(", perplexity {:.3f}", std::exp(evaluation.loss));
  }
  if (evaluation.accuracy) text += fmt::format(", accuracy {:.2f} %", 100 * *evaluation.accuracy);
  if (evaluation.bleu) text += fmt::format(", BLEU {:.2f}", *evaluation.bleu);
  return text;
}

/// What people see on standard error.
class Screen : public TrainWatcher {
 public:
  Screen(const TrainSettings& settings, bool quiet)
      : settings_(settings), quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Screen() override { clear(); }

  void remark(const std::string& text) override { line(text); }

  void planned(const TrainPlan& plan) override {
    const ModelConfig& config = plan.config;
    const auto row = [&](const char* name, const std::string& text) {
      line(fmt::format("{:<12}{}", name, text));
    };
    row("task", std::string(to_string(settings_.task)));
    row("model", fmt::format("{}{}, width {}, {}, {}, vocabulary {}",
                             settings_.scratch ? "new " : "", config.model_type, config.width,
                             layers_of(config), heads_of(config), grouped(config.vocabulary)));
    row("parameters", plan.trained_parameters == plan.parameters
                          ? grouped(plan.parameters)
                          : fmt::format("{}, of which {} are trained", grouped(plan.parameters),
                                        grouped(plan.trained_parameters)));
    std::string data = fmt::format("{} examples, {} tokens", grouped(plan.examples),
                                   grouped(plan.tokens_per_epoch));
    if (plan.validation_examples > 0) {
      data += fmt::format("; {} to validate", grouped(plan.validation_examples));
    }
    if (plan.test_examples > 0) data += fmt::format("; {} to test", grouped(plan.test_examples));
    row("data", data);
    row("steps", fmt::format("{} ({:.3g} epochs of {} batches of up to {} tokens)",
                             grouped(plan.steps), plan.epochs, grouped(plan.batches_per_epoch),
                             grouped(settings_.tokens_per_batch)));
    if (plan.resumed_at > 0) row("goes on", fmt::format("after step {}", grouped(plan.resumed_at)));
  }

  void stepped(const TrainProgress& progress) override {
    const auto now = Clock::now();
    if (!told_time_ && now - start_ > std::chrono::seconds(10)) {
      line(fmt::format("{:<12}{}, at {} tokens/s", "time", duration(progress.seconds_left),
                       grouped(static_cast<int64_t>(progress.tokens_per_second))));
      told_time_ = true;
    }
    if (quiet_ || !terminal_ || now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    fmt::print(stderr, "\r\x1b[Kstep {} of {}, epoch {:.2f}, loss {:.4f}, {} tokens/s, {} left{}",
               grouped(progress.step), grouped(progress.steps), progress.epoch, progress.loss,
               grouped(static_cast<int64_t>(progress.tokens_per_second)),
               duration(progress.seconds_left), last_evaluation_);
    std::fflush(stderr);
    shown_ = true;
  }

  void evaluated(const Evaluation& evaluation, bool best) override {
    const std::string text = figures(evaluation, settings_.task);
    line(fmt::format("step {}: {}{}", grouped(evaluation.step), text, best ? " (best)" : ""));
    last_evaluation_ = fmt::format("; step {}: {}", grouped(evaluation.step), text);
  }

  bool interrupted() override { return was_interrupted(); }

 private:
  using Clock = std::chrono::steady_clock;

  void clear() {
    if (std::exchange(shown_, false)) fmt::print(stderr, "\r\x1b[K");
  }
  void line(const std::string& text) {
    if (quiet_) return;
    clear();
    fmt::print(stderr, "{}\n", text);
  }

  const TrainSettings& settings_;
  bool quiet_, terminal_;
  bool shown_ = false, told_time_ = false;
  std::string last_evaluation_;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

std::string for_people(const TrainSummary& summary, const TrainSettings& settings,
                       const std::string& folder) {
  std::string text;
  const auto row = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12}{}\n", name, value);
  };
  row("trained", fmt::format("{} steps in {}, {} tokens/s{}", grouped(summary.steps),
                             duration(summary.seconds),
                             grouped(static_cast<int64_t>(summary.tokens_per_second)),
                             summary.stopped_early ? ", stopped since nothing got better" : ""));
  row("kept", summary.kept == Kept::average
                  ? fmt::format("the average of steps {}", fmt::join(summary.kept_steps, ", "))
                  : fmt::format("the {} state, of step {}", to_string(summary.kept),
                                grouped(summary.kept_steps.front())));
  if (summary.validation) row("validation", figures(*summary.validation, settings.task));
  if (summary.test) row("test", figures(*summary.test, settings.task));
  row("model", folder);
  return text;
}

void train(const TrainOptions& options, CommonOptions common) {
  if (common.out.empty()) misuse("-o names the folder that the model is written to");
  const std::filesystem::path folder = std::exchange(common.out, "");
  TrainSettings settings = read_train_settings(options.settings);
  if (common.has_seed) settings.seed = common.seed;
  if (options.resume && std::filesystem::exists(folder / "summary.json")) {
    note(common, fmt::format("the training in {} is done", folder.string()));
    if (common.json) deliver(common, read_file(folder / "summary.json", kLargestSummary));
    return;
  }
  std::optional<TrainSummary> summary;
  {
    Screen screen(settings, common.quiet);
    summary = headwise::train(settings, folder, options.resume, screen);
  }
  if (!summary) {
    note(common, fmt::format("the training can go on: headwise train {} -o {} --resume",
                             options.settings, folder.string()));
    throw Interrupted();
  }
  deliver(common, common.json ? to_json(*summary, settings)
                              : for_people(*summary, settings, folder.string()));
}

}  // namespace

void add_train(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App& verb = add_verb(
      app, "train", "Train a new model, or one further, from settings and data",
      "SETTINGS.json says what to train and how: see docs/train.md. -o is the folder that the "
      "model\n"
      "is written to, with log.jsonl and summary.json. Ctrl-C leaves a checkpoint, with which\n"
      "--resume goes on.\n\n"
      "Example:\n"
      "  headwise train settings.json -o ./model",
      common, [options, &common] { train(*options, common); });
  verb.add_option("SETTINGS", options->settings, "A JSON file")->required()->type_name("");
  verb.add_flag("--resume", options->resume,
                "Go on with the training in the folder, or begin one if there is none");
}

}  // namespace headwise::program
