// The folder of a training: made, or taken up, and held against other writers.
#pragma once

#include <filesystem>
#include <optional>

#include "io/folder_lock.h"

namespace headwise {

class TrainFolder {
 public:
  /// Throws Error unless the folder is new or empty, or to be taken up and not done yet. What a
  /// process that was killed left half-written there goes.
  TrainFolder(const std::filesystem::path& folder, bool resume);

 private:
  std::optional<FolderLock> lock_;
};

}  // namespace headwise
