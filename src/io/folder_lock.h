// A folder that only one process may write to.
#pragma once

#include <filesystem>

#include "io/descriptor.h"

namespace headwise {

/// Held as long as it lives, and given back by the system if the process dies.
class FolderLock {
 public:
  /// Throws Error if another process, or another lock of this one, has the folder.
  explicit FolderLock(const std::filesystem::path& folder);

  /// Whether the locked folder still is the one of this name: it may have been moved or replaced.
  bool is_of(const std::filesystem::path& folder) const;

 private:
  Descriptor folder_;
};

}  // namespace headwise
