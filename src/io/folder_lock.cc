// A lock on the folder itself, so that no file is left behind.
#include "io/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "headwise/core/error.h"

namespace headwise {

FolderLock::FolderLock(const std::filesystem::path& folder)
    : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (fd_ >= 0 && ::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
  const int error = errno;
  if (fd_ >= 0) ::close(fd_);
  const bool taken = fd_ >= 0 && error == EWOULDBLOCK;
  throw Error(
      {.what = taken ? "folder: another process is writing to it" : "folder: cannot be opened",
       .where = folder.string(),
       .got = taken ? "" : std::generic_category().message(error),
       .hint = taken ? "wait for it, or choose another folder" : ""});
}

FolderLock::~FolderLock() { ::close(fd_); }

bool FolderLock::is_of(const std::filesystem::path& folder) const {
  struct stat locked = {}, named = {};
  return ::fstat(fd_, &locked) == 0 && ::stat(folder.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
}

}  // namespace headwise
