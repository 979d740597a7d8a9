// A lock on the folder itself, so that no file is left behind.
#include "io/folder_lock.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "headwise/core/error.h"

namespace headwise {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : folder_(folder, O_RDONLY | O_DIRECTORY) {
  const auto lock = [&] { return ::flock(folder_.get(), LOCK_EX | LOCK_NB); };
  if (folder_.is_open() && uninterrupted(lock) == 0) return;
  const int error = errno;
  const bool taken = folder_.is_open() && error == EWOULDBLOCK;
  throw Error(
      {.what = taken ? "folder: another process is writing to it" : "folder: cannot be opened",
       .where = folder.string(),
       .got = taken ? "" : std::generic_category().message(error),
       .hint = taken ? "wait for it, or choose another folder" : ""});
}

bool FolderLock::is_of(const std::filesystem::path& folder) const {
  struct stat locked = {}, named = {};
  return ::fstat(folder_.get(), &locked) == 0 && ::stat(folder.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

}  // namespace headwise
