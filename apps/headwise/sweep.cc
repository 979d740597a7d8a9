// headwise sweep: the same training with other settings, and the table of what came out.
#include "headwise/train/sweep.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "command.h"
#include "options.h"
#include "train_screen.h"

namespace headwise::program {
namespace {

/// Says which trial runs, and shows each as a training of its own.
class SweepScreen : public SweepObserver {
 public:
  explicit SweepScreen(const CommonOptions& common) : common_(common) {}

  TrainObserver& begin(const Trial& trial, int64_t index, int64_t trials, bool done) override {
    screen_.reset();
    log_info(common_, fmt::format("trial {} of {}: {}{}", index + 1, trials, trial.name,
                                  done ? ", done before" : ""));
    return screen_.emplace(trial.settings, common_.quiet);
  }

 private:
  const CommonOptions& common_;
  std::optional<TrainScreen> screen_;
};

void sweep(const std::string& file, const CommonOptions& common) {
  usage_error_if(common.out.empty(), "-o names the folder that the trials are written to");
  usage_error_if(common.has_seed,
                 "the seeds of a sweep are a setting of its grid: \"seed\": [0, 1]");
  const std::filesystem::path folder = common.out;
  const Sweep what = read_sweep(file);
  std::optional<SweepTable> table;
  {
    SweepScreen screen(common);
    table = run_sweep(what, folder, screen);
  }
  if (!table) {
    log_info(common, "the sweep goes on where it was with the same command");
    throw Interrupted();
  }
  print_result(common.json ? to_json(*table) : to_text(*table));
}

}  // namespace

void add_sweep(CLI::App& app, CommonOptions& common) {
  const auto file = std::make_shared<std::string>();
  CLI::App& command = add_command(
      app, "sweep", "Train with many settings, and compare what comes out",
      "SWEEP.json has the settings of a training and a grid of values: see docs/sweep.md. -o is\n"
      "the folder of the trials, with table.json and table.md. The same command again goes on "
      "with\n"
      "trials that are not done.\n\n"
      "Example:\n"
      "  headwise sweep heads.json -o ./heads",
      common, [file, &common] { sweep(*file, common); });
  Options(command).argument("SWEEP", *file, "A JSON file")->required();
}

}  // namespace headwise::program
