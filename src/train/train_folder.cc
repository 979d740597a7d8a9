// Checks, cleans and locks the folder of a training.
#include "train/train_folder.h"

#include <string>
#include <system_error>

#include "headwise/core/error.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

/// What a process that was killed left unfinished; nobody else writes here now.
void remove_parts(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') && name.ends_with(".part")) fs::remove(entry.path(), ignored);
  }
}

void check_folder(const fs::path& folder, bool resume) {
  if (fs::exists(folder / "summary.json")) {
    throw Error({.what = "the training in this folder is done",
                 .where = folder.string(),
                 .hint = "choose another folder"});
  }
  if (resume || fs::is_empty(folder)) return;
  const bool ours = fs::exists(folder / "settings.json");
  throw Error({.what = ours ? "a training was begun in this folder" : "the folder is not empty",
               .where = folder.string(),
               .expected = "a new folder, or an empty one",
               .hint = ours ? "go on with it by --resume, or choose another folder"
                            : "choose another folder"});
}

}  // namespace

TrainFolder::TrainFolder(const fs::path& folder, bool resume) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder)) {
    throw Error({.what = "the folder cannot be made",
                 .where = folder.string(),
                 .got = error ? error.message() : "a file of that name"});
  }
  lock_.emplace(folder);
  check_folder(folder, resume);
  remove_parts(folder);
  remove_parts(folder / "checkpoint");
}

}  // namespace headwise
