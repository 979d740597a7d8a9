// Runs the trials that are missing, and derives the verdict.
#include "headwise/experiment/experiment.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>

#include "experiment/built_in.h"
#include "experiment/experiment_kind.h"
#include "experiment/tiny_models.h"
#include "headwise/core/error.h"
#include "headwise/core/nearest_name.h"
#include "headwise/core/parallel.h"
#include "headwise/io/json.h"
#include "headwise/io/output_file.h"
#include "headwise/kernels/simd.h"
#include "headwise/text/sample_text.h"
#include "io/file.h"
#include "io/file_hash.h"
#include "io/folder_lock.h"
#include "report/page.h"
#include "train/run_log.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kOutcomeNames =
    std::to_array<std::string_view>({"confirmed", "refuted", "depends", "not decided here"});
constexpr const char* kTrials = "trials.jsonl";
constexpr const char* kWork = "trials.headwise-part";  // a folder that is deleted in the end

/// Throws Error for one that has a design only.
const ExperimentKind& kind_of(std::string_view name) {
  const ExperimentInfo& info = experiment(name);
  const auto kinds = experiment_kinds();
  const auto found = std::ranges::find(kinds, info.name, &ExperimentKind::name);
  if (found != kinds.end()) return *found;
  throw Error({.what = "this claim has a design only, and cannot be run",
               .got = std::string(name),
               .hint = fmt::format("see experiments/{}/claim.md", name)});
}

ExperimentInfo info_of(const BuiltInExperiment& file) {
  const auto rest_of_line = [&](std::string_view start) {
    const size_t at = file.design.find(start);
    if (at == std::string_view::npos) return std::string();
    const std::string_view rest = file.design.substr(at + start.size());
    return std::string(rest.substr(0, rest.find('\n')));
  };
  return {.name = file.name,
          .claim = rest_of_line("# "),
          .source = rest_of_line("\nSource: "),
          .design = file.design,
          .settings = file.settings,
          .verdict = file.verdict,
          .not_decided = rest_of_line("\nNot decided here: ")};
}

/// "AMD EPYC, 2 threads, AVX3"
std::string machine() {
  std::string cpu = "unknown processor";
  std::ifstream lines("/proc/cpuinfo");  // of Linux
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("model name")) {
      cpu = line.substr(std::min(line.find(": ") + 2, line.size()));
      break;
    }
  }
  return fmt::format("{}, {} threads, {}", cpu, threads(), simd_target());
}

/// trials.jsonl as far as its lines are whole.
struct TrialFile {
  json header{};  // null: there is none yet
  TrialResults results{};
  double seconds = 0;
  std::vector<std::string> used{};  // in the order of first use
  int64_t bytes = 0;                // of whole lines
};

TrialFile read_trials(const fs::path& file) {
  TrialFile trials;
  if (!is_there(file)) return trials;
  const std::string text = read_file(file);
  int64_t number = 0;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const std::string where = fmt::format("{}, line {}", file.string(), ++number);
    json line = parse_json(std::string_view(text).substr(begin, end - begin), where);
    const JsonObject object(line, where);
    if (number == 1) {
      object.text("experiment");
      trials.header = std::move(line);
    } else {
      trials.seconds += object.number("seconds");
      for (const std::string& used : object.texts("used")) {
        if (std::ranges::find(trials.used, used) == trials.used.end()) trials.used.push_back(used);
      }
      const std::string name = object.text("trial");
      trials.results[name] = object.value("result");
    }
    trials.bytes = static_cast<int64_t>(end) + 1;
  }
  return trials;
}

std::string short_hash(const std::string& sha256) { return sha256.substr(0, 16); }

class Workshop : public TrialContext {
 public:
  Workshop(const ExperimentOptions& options, fs::path folder)
      : options_(options), folder_(std::move(folder)) {
    for (const std::string& model : options.models) {
      const fs::path path = fs::path(model).lexically_normal();
      const std::string name = (path.has_filename() ? path : path.parent_path()).filename();
      models_[name] = model;
    }
  }
  bool has(const ExperimentTrial& trial) const {
    return trial.model.empty() || is_tiny_model(trial.model) || models_.contains(trial.model);
  }

  json run(const ExperimentTrial& trial, int64_t number, int64_t trials) {
    trial_ = &trial;
    number_ = number;
    trials_ = trials;
    used_.clear();
    const auto start = std::chrono::steady_clock::now();
    progress(0, 1);
    json result = trial.run(*this);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    fs::remove_all(path_of_trial());
    return {{"trial", trial.name},
            {"seconds", std::round(seconds * 10) / 10},
            {"used", used_},
            {"result", std::move(result)}};
  }

  const Model& model(const std::string& name) override {
    if (name != loaded_name_) {
      loaded_.reset();
      if (is_tiny_model(name)) {
        const fs::path folder = folder_ / name;
        if (!is_there(folder / "config.json")) {
          make_folder(folder_);
          fs::remove_all(folder);
          train_tiny_model(name, folder, [this] { progress(0, 1); });
        }
        loaded_ = std::make_unique<Model>(load(folder));
      } else {
        const auto found = models_.find(name);
        if (found == models_.end()) {
          throw Error({.what = "a model is missing",
                       .got = "no --model whose folder is called so",
                       .expected = name,
                       .hint = "docs/experiments.md says where the models are from"});
        }
        loaded_ = std::make_unique<Model>(load(found->second));
      }
      loaded_name_ = name;
    }
    note(fmt::format("{} {}", name, short_hash(loaded_->hash([this] { progress(0, 1); }))));
    return *loaded_;
  }

  fs::path data(const std::string& file) override {
    fs::path path = options_.data / file;
    if (file == kBuiltInText) {
      make_folder(folder_);
      path = folder_ / "text.txt";
      write_file_whole(path, longer_sample_text());
    }
    if (!is_there(path)) {
      throw Error({.what = "a file of the data is missing",
                   .where = options_.data.string(),
                   .expected = file,
                   .hint = "--data names the folder of the data"});
    }
    const std::vector<fs::path> files = {path};
    note(fmt::format("{} {}", file, short_hash(sha256_of_files(files))));
    return path;
  }

  fs::path folder() override {
    make_folder(path_of_trial());
    return path_of_trial();
  }

  uint64_t seed() const override { return options_.seed; }

  void progress(int64_t done, int64_t total) override {
    if (options_.progress) options_.progress(trial_->name, number_, trials_, done, total);
  }

  /// After the last trial. What a trial that was stopped left in its folder stays.
  void clean() {
    loaded_.reset();
    fs::remove_all(folder_);
  }

 private:
  fs::path path_of_trial() const { return folder_ / fmt::format("trial-{}", number_); }

  void note(std::string used) {
    if (std::ranges::find(used_, used) == used_.end()) used_.push_back(std::move(used));
  }

  const ExperimentOptions& options_;
  fs::path folder_;
  std::map<std::string, std::string> models_;
  const ExperimentTrial* trial_ = nullptr;
  int64_t number_ = 0, trials_ = 0;
  std::vector<std::string> used_;
  std::string loaded_name_;
  std::unique_ptr<Model> loaded_;
};

void check_same_run(const json& before, const json& now, const fs::path& folder) {
  for (const char* field : {"experiment", "quick", "seed", "settings"}) {
    if (before.value(field, json()) == now.at(field)) continue;
    throw Error({.what = "the folder has trials of another run",
                 .where = fmt::format("{}: {}", (folder / kTrials).string(), field),
                 .got = quote(before.value(field, json()).dump()),
                 .expected = quote(now.at(field).dump()),
                 .hint = "give another folder with -o"});
  }
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", parts);
}

/// Unless trials are missing, what the rule finds.
Finding find(const ExperimentKind& kind, const json& settings, const TrialResults& results,
             int64_t left) {
  if (left > 0) {
    return {.why = fmt::format("{} of {} trials are not done", left, std::ssize(results) + left)};
  }
  Finding finding = kind.judge(settings, results);
  const std::vector<double> corrected = holm(finding.family);
  for (size_t t = 0; t < corrected.size(); ++t) finding.family[t].p_holm = corrected[t];
  return finding;
}

ClaimVerdict judge_trials(const TrialFile& file, const std::string& where) {
  if (file.header.is_null()) {
    throw Error({.what = "experiment: there are no trials", .where = where});
  }
  const JsonObject header(file.header, where);
  const ExperimentKind& kind = kind_of(header.text("experiment"));
  ClaimVerdict verdict{.experiment = std::string(kind.name),
                       .quick = header.boolean("quick"),
                       .seconds = file.seconds,
                       .seed = static_cast<uint64_t>(header.integer("seed")),
                       .machine = header.text("machine"),
                       .started = header.text("started"),
                       .version = header.text("version"),
                       .used = file.used};
  try {
    const json& settings = header.value("settings");
    TrialResults results;
    for (const ExperimentTrial& trial : kind.trials(settings)) {
      const auto found = file.results.find(trial.name);
      if (found != file.results.end()) results.insert(*found);
      ++(found != file.results.end() ? verdict.trials : verdict.left);
    }
    Finding finding = find(kind, settings, results, verdict.left);
    verdict.outcome = finding.outcome;
    verdict.depends_on = std::move(finding.depends_on);
    verdict.why = std::move(finding.why);
    verdict.figure_name = std::move(finding.figure_name);
    verdict.figure = finding.figure;
    verdict.interval = finding.interval;
    verdict.n = finding.n;
    verdict.family = std::move(finding.family);
    if (finding.plot.title.empty()) finding.plot.title = kind.name;
    if (!finding.plot.empty()) verdict.plot = to_svg(finding.plot);
  } catch (const json::exception& error) {
    throw Error({.what = "experiment: a trial lacks what the rule needs",
                 .where = where,
                 .got = error.what(),
                 .hint = "run it anew in another folder"});
  }
  return verdict;
}

}  // namespace

json settings_of(const ExperimentInfo& info, bool quick) {
  json settings = parse_json(info.settings, fmt::format("experiments/{}/settings.json", info.name));
  json changed = settings.value("quick", json::object());
  settings.erase("quick");
  if (quick) settings.update(changed);
  return settings;
}

std::span<const ExperimentInfo> experiments() {
  static const std::vector<ExperimentInfo> all = [] {
    std::vector<BuiltInExperiment> files(built_in_experiments().begin(),
                                         built_in_experiments().end());
    const auto kinds = experiment_kinds();
    std::ranges::stable_sort(files, {}, [&](const BuiltInExperiment& file) {
      return std::ranges::find(kinds, file.name, &ExperimentKind::name) - kinds.begin();
    });
    std::vector<ExperimentInfo> infos;
    for (const BuiltInExperiment& file : files) infos.push_back(info_of(file));
    return infos;
  }();
  return all;
}

const ExperimentInfo& experiment(std::string_view name) {
  std::vector<std::string> names;
  for (const ExperimentInfo& info : experiments()) {
    if (info.name == name) return info;
    names.emplace_back(info.name);
  }
  throw Error({.what = "there is no such experiment",
               .got = std::string(name),
               .expected = fmt::format("{}", fmt::join(names, ", ")),
               .hint = did_you_mean(name, names)});
}

std::string_view to_string(ClaimOutcome outcome) {
  return kOutcomeNames[static_cast<size_t>(outcome)];
}

ClaimVerdict run_experiment(std::string_view name, const fs::path& folder,
                            const ExperimentOptions& options) {
  const ExperimentInfo& info = experiment(name);
  const ExperimentKind& kind = kind_of(name);
  const json settings = settings_of(info, options.quick);
  json header = {{"experiment", name},
                 {"quick", options.quick},
                 {"seed", options.seed},
                 {"settings", settings},
                 {"machine", machine()},
                 {"started", now()},
                 {"version", std::string(program_version())}};
  make_folder(folder);
  const FolderLock lock(folder);
  const fs::path file = folder / kTrials;
  TrialFile done = read_trials(file);
  if (!done.header.is_null()) check_same_run(done.header, header, folder);
  {
    RunLog log(file, done.bytes);
    if (done.header.is_null()) log.add(header.dump());
    const std::vector<ExperimentTrial> trials = kind.trials(settings);
    Workshop workshop(options, fs::absolute(folder) / kWork);
    for (size_t t = 0; t < trials.size(); ++t) {
      if (done.results.contains(trials[t].name) || !workshop.has(trials[t])) continue;
      log.add(workshop.run(trials[t], static_cast<int64_t>(t), std::ssize(trials)).dump());
      log.sync();
    }
    workshop.clean();
  }
  ClaimVerdict verdict = judge_experiment(folder);
  write_file_whole(folder / "verdict.json", to_json(verdict));
  if (!verdict.plot.empty()) write_file_whole(folder / "plot.svg", verdict.plot);
  return verdict;
}

ClaimVerdict judge_experiment(const fs::path& folder) {
  const fs::path file = folder / kTrials;
  return judge_trials(read_trials(file), file.string());
}

}  // namespace headwise
