// headwise train: a model from settings and data, with a line that says how it goes.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "command.h"
#include "headwise/train/trainer.h"
#include "options.h"
#include "screen.h"
#include "train_screen.h"

namespace headwise::program {
namespace {

struct TrainOptions {
  std::string settings{};
  bool resume = false;
};

std::string training_text(const TrainSummary& summary, const TrainSettings& settings,
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

void train(const TrainOptions& options, const CommonOptions& common) {
  usage_error_if(common.out.empty(), "-o names the folder that the model is written to");
  const std::filesystem::path folder = common.out;
  TrainSettings settings = read_train_settings(options.settings);
  if (common.has_seed) settings.seed = common.seed;
  if (const auto done = options.resume ? read_summary(settings, folder) : std::nullopt) {
    log_info(common, fmt::format("the training in {} is done", folder.string()));
    if (common.json) print_result(*done);
    return;
  }
  std::optional<TrainSummary> summary;
  {
    TrainScreen screen(settings, common.quiet);
    summary = headwise::train(settings, folder, options.resume, screen);
  }
  if (!summary) {
    log_info(common, fmt::format("the training can go on: headwise train {} -o {} --resume",
                                 options.settings, folder.string()));
    throw Interrupted();
  }
  print_result(common.json ? to_json(*summary, settings)
                           : training_text(*summary, settings, folder.string()));
}

}  // namespace

void add_train(CLI::App& app, CommonOptions& common) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App& command = add_command(
      app, "train", "Train a new model, or one further, from settings and data",
      "SETTINGS.json says what to train and how: see docs/train.md. -o is the folder that the "
      "model\n"
      "is written to, with log.jsonl and summary.json. Ctrl-C leaves a checkpoint, with which\n"
      "--resume goes on.\n\n"
      "Example:\n"
      "  headwise train settings.json -o ./model",
      common, [options, &common] { train(*options, common); });
  Options declare(command);
  declare.argument("SETTINGS", options->settings, "A JSON file")->required();
  declare.resume(options->resume,
                 "Go on with the training in the folder, or begin one if there is none");
}

}  // namespace headwise::program
