// The folder of a training: made, or taken up, and held against other writers.
#pragma once

#include <filesystem>
#include <optional>

#include "headwise/train/settings.h"
#include "io/folder_lock.h"

namespace headwise {

/// Whether a folder has nothing in it but what a process that was killed at once left there.
bool is_unused(const std::filesystem::path& folder);

/// Writes settings.json, with the seed that is used.
void write_settings(const TrainSettings& settings, const std::filesystem::path& folder);

class TrainFolder {
 public:
  /// Throws Error unless the folder is new or empty, or to be taken up: with a checkpoint, or this
  /// training's settings.json, or the manifest.json of a trial that begins. Without a checkpoint it
  /// has settings.json from now on. What a process that was killed left half-written there goes.
  TrainFolder(const std::filesystem::path& folder, const TrainSettings& settings, bool resume);

  /// A training that could not begin leaves no settings in a folder that was empty.
  ~TrainFolder();
  TrainFolder(const TrainFolder&) = delete;
  TrainFolder& operator=(const TrainFolder&) = delete;

 private:
  std::filesystem::path folder_;
  bool new_ = false;  // it had no settings.json
  std::optional<FolderLock> lock_;
};

}  // namespace headwise
