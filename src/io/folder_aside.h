// A folder that appears whole or not at all.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "io/folder_lock.h"

namespace headwise {

/// A folder that is made aside and becomes `out`, or is gone with this object. The work is done in
/// OUT.headwise-part, which one process at a time may have; what a process that died left there is
/// removed.
class FolderAside {
 public:
  /// Throws Error unless `out` can be made, and if another process is making it.
  explicit FolderAside(std::filesystem::path out);
  ~FolderAside();
  FolderAside(const FolderAside&) = delete;
  FolderAside& operator=(const FolderAside&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// A name for another folder, which is gone with this object.
  std::filesystem::path beside(const std::string& name) const { return room_ / name; }
  /// Also after a loss of power, `out` has all of its files, or is not there.
  void become_out();

 private:
  void take_room();
  void remove_room();

  std::filesystem::path out_, room_, path_;
  std::optional<FolderLock> lock_;
};

/// One that never gets its name: its path() is in the system's temporary folder.
std::shared_ptr<FolderAside> temporary_folder();

/// Throws Error if `out` is the folder, or lies in it: what is in there is copied.
void check_outside(const std::filesystem::path& folder, const std::filesystem::path& out);

/// Copies all files of a folder into another, which is there.
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace headwise
