// Files: read into memory, written whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/output_file.h"
#include "io/descriptor.h"

namespace headwise {

/// Whether the folder has something of this name. A link that leads nowhere counts: who reads it
/// then says so, instead of taking it for a file that was left out.
bool is_there(const std::filesystem::path& path);

/// Has the disk keep which files a folder has, as far as its file system can.
void sync_names(const std::filesystem::path& folder);

/// Has the disk keep all files below a folder, and their names. Throws Error if a file cannot be
/// kept, as on a full disk.
void sync_folder(const std::filesystem::path& folder);

/// A regular file, open for reading. It is never mapped: bytes of a mapped file that another
/// process cuts off meanwhile end the program by a signal, those of a read throw Error.
class InputFile {
 public:
  /// Throws Error if there is no such file, or a directory, pipe, socket, device or dangling link.
  explicit InputFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }  // in bytes, when it was opened

  /// The bytes from `at` on, which lie within size(). Throws Error if the file is shorter by now.
  void read(int64_t at, std::span<std::byte> out) const;

  /// Throws Error if the file was written to since it was opened.
  void check_unchanged() const;

 private:
  std::filesystem::path path_;
  Descriptor file_;
  int64_t size_ = 0;
  int64_t changed_ = 0;  // time of the last write, in nanoseconds
};

/// The contents of a regular file. Throws Error if they are more than `most` bytes.
std::string read_file(const std::filesystem::path& path, size_t most = SIZE_MAX);

/// As in headwise/io/output_file.h, the parts one after the other.
void write_file_whole(const std::filesystem::path& path,
                      std::span<const std::span<const std::byte>> parts);

/// The same with bytes that are made while they are written: `fill` hands them to the sink.
using FileSink = std::function<void(std::span<const std::byte>)>;
void write_file_whole(const std::filesystem::path& path,
                      const std::function<void(const FileSink&)>& fill);

/// A copy that is whole or not there.
void copy_file_whole(const std::filesystem::path& from, const std::filesystem::path& to);

/// What processes that were killed left of `path` beside it, as `.NAME.PID.NUMBER.part`.
std::vector<std::filesystem::path> left_half_written(const std::filesystem::path& path);

}  // namespace headwise
