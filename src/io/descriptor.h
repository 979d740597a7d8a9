// An open file of the system. Calls that a signal interrupts are made again.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

namespace headwise {

/// What the call returns once no signal interrupts it.
template <class Call>
auto uninterrupted(const Call& call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

/// Where a call fails, it gives false, or a negative number, and errno says why.
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const std::filesystem::path& path, int flags)
      : fd_(uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  bool is_open() const { return fd_ >= 0; }
  int get() const { return fd_; }

  /// How many bytes were read; fewer than there is room for also before the end of the file.
  ssize_t read(int64_t at, std::span<std::byte> out) const {
    return uninterrupted([&] { return ::pread(fd_, out.data(), out.size(), at); });
  }

  bool write(std::span<const std::byte> bytes) const {
    while (!bytes.empty()) {
      const ssize_t written =
          uninterrupted([&] { return ::write(fd_, bytes.data(), bytes.size()); });
      if (written < 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return true;
  }

  bool truncate(int64_t size) const {
    return uninterrupted([&] { return ::ftruncate(fd_, size); }) == 0;
  }

  /// The disk has what was written.
  bool sync() const {
    return uninterrupted([&] { return ::fsync(fd_); }) == 0;
  }

  /// A signal does not keep it open.
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0 || errno == EINTR; }

 private:
  int fd_ = -1;
};

}  // namespace headwise
