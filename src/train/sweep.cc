// Reads a sweep and runs its trials.
#include "headwise/train/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "io/file.h"
#include "io/folder_lock.h"
#include "train/train_folder.h"
#include "train/trial_measures.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kLargestFile = 1 << 20;
constexpr size_t kMostTrials = 10000;
constexpr size_t kMostSettings = size_t{1} << 26;  // bytes, of all trials

/// Sets "model.heads" of settings.
void set_field(json& settings, const std::string& field, const json& value,
               const JsonObject& grid) {
  json* place = &settings;
  size_t begin = 0;
  for (size_t end; (end = field.find('.', begin)) != field.npos; begin = end + 1) {
    place = &(*place)[field.substr(begin, end - begin)];
    if (!place->is_null() && !place->is_object()) {
      grid.refuse(field, "the base has no such object, and so no such field",
                  "a field of the settings, for instance optimizer.rate");
    }
  }
  (*place)[field.substr(begin)] = value;
}

/// "heads" of "model.heads", unless another field ends so, too.
std::string short_name(const std::string& field, const std::vector<std::string>& all) {
  const auto last = [](const std::string& name) { return name.substr(name.rfind('.') + 1); };
  const bool alone = std::ranges::count_if(all, [&](const std::string& other) {
                       return last(other) == last(field);
                     }) == 1;
  return alone ? last(field) : field;
}

std::string folder_name(const std::vector<SweepValue>& values,
                        const std::vector<std::string>& fields) {
  std::string name;
  for (const SweepValue& value : values) {
    name += fmt::format("{}{}={}", name.empty() ? "" : ",", short_name(value.field, fields),
                        value.value);
  }
  std::erase(name, '"');
  std::ranges::replace_if(
      name,
      [](char c) {
        return !(std::isalnum(static_cast<unsigned char>(c)) != 0 || std::strchr("=,._-", c));
      },
      '-');
  if (name.starts_with('.')) name.front() = '-';
  return name.empty() ? "trial" : name.substr(0, 120);
}

struct Base {
  json settings{};
  fs::path folder{};  // that its paths are relative to
};

Base read_base(const JsonObject& sweep, const fs::path& folder) {
  if (sweep.value("base").is_object()) return {sweep.value("base"), folder};
  if (!sweep.value("base").is_string()) {
    sweep.refuse("base", "no settings", "an object, or the name of a file");
  }
  const fs::path file = folder / sweep.text("base");
  Base base{.settings = parse_json(read_file(file, kLargestFile), file.string()),
            .folder = file.parent_path()};
  (void)JsonObject(base.settings, file.string());  // throws Error for anything else
  return base;
}

/// All combinations of the values, the last field changing fastest.
std::vector<std::vector<SweepValue>> combinations(const JsonObject& grid) {
  std::vector<std::vector<SweepValue>> all = {{}};
  for (const std::string& field : grid.names()) {
    const json& values = grid.value(field);
    if (!values.is_array() || values.empty()) {
      grid.refuse(field, "no list of values", "at least one value, in an array");
    }
    if (values.size() > kMostTrials / all.size()) {
      grid.refuse(field, "too many trials", fmt::format("at most {}", kMostTrials));
    }
    for (const json& value : values) {
      if (std::count(values.begin(), values.end(), value) > 1) {
        grid.refuse(field, "a value is there twice", "every value once",
                    "the same trial again tells nothing new");
      }
    }
    std::vector<std::vector<SweepValue>> longer;
    for (const auto& before : all) {
      for (const json& value : values) {
        longer.push_back(before);
        longer.back().push_back({field, value.dump()});
      }
    }
    all = std::move(longer);
  }
  return all;
}

std::string manifest_of(const Trial& trial) {
  ordered_json manifest = {{"name", trial.name}};
  for (const SweepValue& value : trial.values) {
    manifest["values"][value.field] = ordered_json::parse(value.value);
  }
  manifest["seed"] = trial.settings.seed;
  manifest["settings"] = ordered_json::parse(trial.settings.identity);
  return json_text(manifest, 2);
}

/// What a trial that is done has given; nothing of others. Throws Error if the folder has something
/// else than this trial.
std::optional<TrialResult> find_result(const Trial& trial, const fs::path& folder) {
  const fs::path file = folder / "manifest.json";
  if (!fs::exists(folder) || is_unused(folder)) return {};
  if (!fs::exists(file)) {
    throw Error({.what = "the folder of a trial has something else in it",
                 .where = folder.string(),
                 .hint = "name another folder for the sweep"});
  }
  if (read_file(file, kLargestFile) != manifest_of(trial)) {
    throw Error({.what = "the folder of a trial was begun with other settings",
                 .where = file.string(),
                 .hint = "name another folder for the sweep, or remove the trial's"});
  }
  if (!read_summary(trial.settings, folder)) return {};
  return read_trial(trial, folder);
}

/// Nothing if the trial was interrupted.
std::optional<TrialResult> run_trial(const Trial& trial, const fs::path& folder,
                                     TrainObserver& observer) {
  make_folder(folder);
  const fs::path file = folder / "manifest.json";
  if (!fs::exists(file)) write_file_whole(file, manifest_of(trial));
  if (!train(trial.settings, folder, true, observer)) return {};
  return read_trial(trial, folder);
}

SweepTable table_of(const std::vector<std::optional<TrialResult>>& results) {
  std::vector<TrialResult> known;
  for (const auto& result : results) {
    if (result) known.push_back(*result);
  }
  return make_table(known);
}

}  // namespace

Sweep read_sweep(const fs::path& file) {
  Sweep sweep{.text = read_file(file, kLargestFile)};
  const json parsed = parse_json(sweep.text, file.string());
  const JsonObject object(parsed, file.string());
  object.only({"base", "grid"});
  const Base base = read_base(object, file.parent_path());
  const JsonObject grid = object.object("grid");
  std::vector<std::vector<SweepValue>> all = combinations(grid);
  if (const size_t bytes = base.settings.dump().size(); bytes > kMostSettings / all.size()) {
    object.refuse("base", "the settings of all trials are too large",
                  fmt::format("at most {} bytes for {} trials", kMostSettings, all.size()));
  }
  std::set<std::string> names;
  for (auto& values : all) {
    json settings = base.settings;
    for (const SweepValue& value : values) {
      set_field(settings, value.field, json::parse(value.value), grid);
    }
    Trial trial{.name = folder_name(values, grid.names()), .values = std::move(values)};
    while (!names.insert(trial.name).second) trial.name += "+";
    trial.settings = parse_train_settings(
        settings.dump(), fmt::format("{}, trial {}", file.string(), trial.name), base.folder);
    sweep.trials.push_back(std::move(trial));
  }
  return sweep;
}

std::optional<SweepTable> run_sweep(const Sweep& sweep, const fs::path& folder,
                                    SweepObserver& observer) {
  make_folder(folder);
  if (!is_unused(folder) && !fs::exists(folder / "sweep.json")) {
    throw Error({.what = "the folder is not empty, and has no sweep",
                 .where = folder.string(),
                 .expected = "a new folder, an empty one, or one of a sweep"});
  }
  const FolderLock lock(folder);
  write_file_whole(folder / "sweep.json", sweep.text);
  // All that are done, so that the table loses none of them while others run.
  std::vector<std::optional<TrialResult>> results;
  for (const Trial& trial : sweep.trials) {
    results.push_back(find_result(trial, folder / trial.name));
  }
  SweepTable table;
  for (size_t i = 0; i < results.size(); ++i) {
    const Trial& trial = sweep.trials[i];
    TrainObserver& trial_observer =
        observer.begin(trial, static_cast<int64_t>(i), std::ssize(results), results[i].has_value());
    if (!results[i]) results[i] = run_trial(trial, folder / trial.name, trial_observer);
    if (!results[i]) return {};
    table = table_of(results);
    write_file_whole(folder / "table.json", to_json(table));
    write_file_whole(folder / "table.md", to_markdown(table));
  }
  return table;
}

}  // namespace headwise
