// Checks, cleans and locks the folder of a training, and finds what one that is done left there.
#include "train/train_folder.h"

#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/io/json_text.h"
#include "headwise/train/trainer.h"
#include "io/file.h"
#include "train/checkpoint.h"
#include "train/training_setup.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kLargestSummary = 1 << 24;

bool is_part(const fs::path& file) {
  const std::string name = file.filename().string();
  return name.starts_with('.') && name.ends_with(".part");
}

/// What a process that was killed left unfinished; nobody else writes here now.
void remove_parts(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_part(entry.path())) fs::remove(entry.path(), ignored);
  }
}

/// Whether there is no other file than this one, and parts of files of JSON, with which every
/// training begins.
bool has_only(const fs::path& folder, const char* name) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string found = entry.path().filename().string();
    if (found == name) continue;
    if (!is_part(entry.path()) || found.find(".json.") == std::string::npos) return false;
  }
  return true;
}

/// What a settings.json says of the training that it was written for.
TrainIdentity read_begun(const fs::path& file) {
  json begun = read_json(file);
  (void)JsonObject(begun, file.string());  // throws Error for anything else
  TrainIdentity identity;
  if (begun.contains("seed") && begun["seed"].is_number_unsigned()) {
    identity.seed = begun["seed"].get<uint64_t>();
  }
  begun.erase("seed");
  identity.settings =
      parse_train_settings(begun.dump(), file.string(), file.parent_path()).identity;
  return identity;
}

/// Whether a sweep made the folder for this training, which has not begun.
bool is_new_trial(const fs::path& folder, const TrainSettings& settings) {
  if (!has_only(folder, "manifest.json")) return false;
  try {
    const json manifest = read_json(folder / "manifest.json");
    const JsonObject fields(manifest, "manifest.json");
    return fields.value("seed") == json(settings.seed) &&
           fields.value("settings") == json::parse(settings.identity);
  } catch (const Error&) {
    return false;
  }
}

/// Whether a training was begun here that can go on; throws Error if it was another one.
bool can_go_on(const fs::path& folder, const TrainSettings& settings) {
  const fs::path file = folder / "settings.json";
  if (!fs::exists(file)) return is_new_trial(folder, settings);
  if (Checkpoints(folder / "checkpoint").exist()) return true;  // it is compared when it is read
  TrainIdentity begun;
  try {
    begun = read_begun(file);
  } catch (const Error&) {
    return false;  // somebody's settings
  }
  require_same(file, begun, {.settings = settings.identity, .seed = settings.seed});
  return true;
}

void check_folder(const fs::path& folder, const TrainSettings& settings, bool resume) {
  if (fs::exists(folder / "summary.json")) {
    throw Error({.what = "the training in this folder is done",
                 .where = folder.string(),
                 .hint = "choose another folder"});
  }
  if (is_unused(folder) || (resume && can_go_on(folder, settings))) return;
  const bool ours = !resume && fs::exists(folder / "settings.json");
  throw Error({.what = ours ? "a training was begun in this folder" : "the folder is not empty",
               .where = folder.string(),
               .expected = resume
                               ? "a new folder, an empty one, or one that a training was begun in"
                               : "a new folder, or an empty one",
               .hint = ours ? "go on with it by --resume, or choose another folder"
                            : "choose another folder"});
}

}  // namespace

bool is_unused(const fs::path& folder) { return has_only(folder, ""); }

void write_settings(const TrainSettings& settings, const fs::path& folder) {
  ordered_json effective = ordered_json::parse(settings.text);
  effective["seed"] = settings.seed;
  write_file_whole(folder / "settings.json", json_text(effective, 2));
}

TrainFolder::TrainFolder(const fs::path& folder, const TrainSettings& settings, bool resume)
    : folder_(folder) {
  make_folder(folder);
  lock_.emplace(folder);
  check_folder(folder, settings, resume);
  remove_parts(folder);
  remove_parts(folder / "checkpoint");
  if (Checkpoints(folder / "checkpoint").exist()) return;
  new_ = !fs::exists(folder / "settings.json");
  write_settings(settings, folder);
}

TrainFolder::~TrainFolder() {
  if (!new_) return;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder_, ignored)) {
    if (entry.path().filename() != "settings.json") return;
  }
  fs::remove(folder_ / "settings.json", ignored);
}

std::optional<std::string> read_summary(const TrainSettings& settings, const fs::path& folder) {
  const fs::path file = folder / "summary.json", begun = folder / "settings.json";
  if (!fs::exists(file)) return {};
  std::string text = read_file(file, kLargestSummary);
  const json summary = parse_json(text, file.string());
  TrainIdentity before = read_begun(begun);
  require_same(begun, before, {.settings = settings.identity, .seed = settings.seed});
  const TrainIdentity now = identify(settings, folder);
  before.files = now.files;
  if (const auto files = JsonObject(summary, file.string()).optional_object("files")) {
    before.files = read_file_identities(*files);
  }
  require_same(begun, before, now);
  // A process may have been killed between its last two deeds.
  std::error_code ignored;
  fs::remove_all(folder / "checkpoint", ignored);
  return text;
}

}  // namespace headwise
