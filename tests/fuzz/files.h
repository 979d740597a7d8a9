// Files of fuzz targets, in memory.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "fuzz.h"

namespace headwise::fuzz {

inline void write_all(int file, std::string_view bytes) {
  must(file >= 0 && ::write(file, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
       "no file in memory");
}

/// Bytes under a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    write_all(file_, bytes);
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/// A folder that is gone when the process ends.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::is_directory("/dev/shm") ? "/dev/shm/headwise-fuzz-XXXXXX"
                                                                 : "/tmp/headwise-fuzz-XXXXXX";
    must(::mkdtemp(name.data()) != nullptr, "no folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  std::filesystem::path write(const char* name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    write_all(opened, bytes);
    ::close(opened);
    return file;
  }

 private:
  std::filesystem::path path_;
};

}  // namespace headwise::fuzz
