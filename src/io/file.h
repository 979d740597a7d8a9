// Files: read by mapping, written whole or not at all.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace headwise {

/// Whether the folder has something of this name. A link that leads nowhere counts: who reads it
/// then says so, instead of taking it for a file that was left out.
bool is_there(const std::filesystem::path& path);

/// Makes a folder and those above it, where they are missing. Throws Error if it cannot be made.
void make_folder(const std::filesystem::path& folder);

/// A regular file, mapped for reading. Nobody may shorten it meanwhile.
class MappedFile {
 public:
  /// Throws Error if there is no such file, or a directory, pipe, socket, device or dangling link.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const;

  /// The pages wholly inside `part` need not stay in memory; reading them again works.
  void release(std::span<const std::byte> part) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

/// The contents of a regular file of at most `most` bytes.
std::string read_file(const std::filesystem::path& path, size_t most);

/// Writes the parts one after the other beside `path`, syncs, then renames: whatever happens,
/// `path` holds the old contents or the new ones, and an Error leaves nothing else behind. Makes
/// missing folders above it.
void write_file_whole(const std::filesystem::path& path,
                      std::span<const std::span<const std::byte>> parts);
void write_file_whole(const std::filesystem::path& path, std::string_view text);

/// The same with bytes that are made while they are written: `fill` hands them to the sink.
using FileSink = std::function<void(std::span<const std::byte>)>;
void write_file_whole(const std::filesystem::path& path,
                      const std::function<void(const FileSink&)>& fill);

}  // namespace headwise
