// Reading, and writing aside with fsync and rename, on POSIX.
#include "io/file.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "headwise/core/error.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;

std::string reason(int error) { return std::generic_category().message(error); }

const char* kind_of(mode_t mode) {
  if (S_ISREG(mode)) return "a regular file";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

[[noreturn]] void cannot_read(const fs::path& path, std::string got, const char* hint = "") {
  throw Error({.what = "file: cannot be read",
               .where = path.string(),
               .got = std::move(got),
               .expected = "a regular file",
               .hint = hint});
}

[[noreturn]] void cannot_write(const fs::path& path, std::string got, const char* hint = "") {
  throw Error({.what = "file: cannot be written",
               .where = path.string(),
               .got = std::move(got),
               .hint = hint});
}

struct stat status_of(int file, const fs::path& path) {
  struct stat status = {};
  if (::fstat(file, &status) != 0) cannot_read(path, reason(errno));
  return status;
}

int64_t write_time(const struct stat& status) {
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

[[noreturn]] void cannot_open(const fs::path& path, int error) {
  std::error_code ignored;
  if (error == ENOENT && fs::is_symlink(fs::symlink_status(path, ignored))) {
    cannot_read(path, fmt::format("a link to {}, which is not there",
                                  fs::read_symlink(path, ignored).string()));
  }
  cannot_read(path, error == ENOENT ? "no such file" : reason(error));
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

std::string aside_name(const std::string& name, ::pid_t process, unsigned number) {
  return fmt::format(".{}.{}.{}.part", name, process, number);
}

/// The process that has, or had, an aside_name of `name`; none for other files.
std::optional<::pid_t> writer_of(const std::string& name, const std::string& aside) {
  const std::string begin = fmt::format(".{}.", name);
  if (!aside.starts_with(begin)) return {};
  ::pid_t process = 0;
  unsigned number = 0;
  const char* const end = aside.data() + aside.size();
  const auto pid = std::from_chars(aside.data() + begin.size(), end, process);
  if (pid.ec != std::errc() || pid.ptr == end || process <= 0) return {};
  const auto count = std::from_chars(pid.ptr + 1, end, number);
  if (count.ec != std::errc() || aside != aside_name(name, process, number)) return {};
  return process;
}

/// A file in the folder of `path` that no other writer has; removed unless it was renamed.
class Aside {
 public:
  explicit Aside(const fs::path& path) : path_(path) {
    for (const fs::path& left : left_half_written(path)) ::unlink(left.c_str());
    static std::atomic<unsigned> number = 0;
    do {
      aside_ = path;
      aside_.replace_filename(aside_name(path.filename().string(), ::getpid(), number++));
      file_ = Descriptor(aside_, O_WRONLY | O_CREAT | O_EXCL);
    } while (!file_.is_open() && errno == EEXIST);
    if (!file_.is_open()) fail(errno);
  }
  ~Aside() {
    if (!renamed_) ::unlink(aside_.c_str());
  }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;

  void write(std::span<const std::byte> bytes) {
    if (!file_.write(bytes)) fail(errno);
  }

  void rename() {
    if (!file_.sync() || !file_.close() || ::rename(aside_.c_str(), path_.c_str()) != 0) {
      fail(errno);
    }
    renamed_ = true;
    sync_names(folder_of(path_));  // the file itself is safe already
  }

 private:
  [[noreturn]] void fail(int error) const {
    cannot_write(path_, reason(error),
                 error == ENOSPC || error == EFBIG || error == EDQUOT
                     ? "make room; what was there before is untouched"
                     : "");
  }

  fs::path path_;
  fs::path aside_;
  Descriptor file_;
  bool renamed_ = false;
};

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

std::vector<fs::path> left_half_written(const fs::path& path) {
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator at(folder_of(path), error), end; !error && at != end;
       at.increment(error)) {
    const auto writer = writer_of(path.filename().string(), at->path().filename().string());
    if (writer && ::kill(*writer, 0) != 0 && errno == ESRCH) left.push_back(at->path());
  }
  return left;
}

void make_folder(const fs::path& folder) {
  std::error_code error, ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return;
  make_folder(folder.parent_path());
  if (fs::create_directory(folder, error)) sync_names(folder_of(folder));
  if (fs::is_directory(folder, ignored)) return;  // also made by somebody else
  throw Error({.what = "the folder cannot be made",
               .where = folder.string(),
               .got = is_there(folder) ? "a file of that name" : error.message()});
}

void sync_names(const fs::path& folder) {
  const Descriptor opened(folder, O_RDONLY | O_DIRECTORY);
  if (opened.is_open()) opened.sync();
}

void sync_folder(const fs::path& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    const fs::file_status status = at->symlink_status(error);  // links are not followed
    if (error) break;
    if (fs::is_directory(status)) sync_names(at->path());
    if (!fs::is_regular_file(status)) continue;
    const Descriptor opened(at->path(), O_RDONLY);
    if (!opened.is_open() || !opened.sync()) cannot_write(at->path(), reason(errno));
  }
  if (error) cannot_write(folder, error.message());
  sync_names(folder);
}

InputFile::InputFile(const fs::path& path) : path_(path) {
  // Without O_NONBLOCK, opening a pipe waits for its writer.
  file_ = Descriptor(path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!file_.is_open()) cannot_open(path, errno);
  const struct stat status = status_of(file_.get(), path);
  if (!S_ISREG(status.st_mode)) cannot_read(path, kind_of(status.st_mode));
  size_ = status.st_size;
  changed_ = write_time(status);
}

void InputFile::read(int64_t at, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = file_.read(at, out);
    if (count < 0) cannot_read(path_, reason(errno));
    if (count == 0) {
      throw Error({.what = "file: it was shortened while it was read",
                   .where = path_.string(),
                   .got = fmt::format("{} bytes", at),
                   .expected = fmt::format("{} bytes, as when it was opened", size_),
                   .hint = "write files aside and rename them, instead of writing into them"});
    }
    out = out.subspan(static_cast<size_t>(count));
    at += count;
  }
}

void InputFile::check_unchanged() const {
  const struct stat status = status_of(file_.get(), path_);
  if (status.st_size == size_ && write_time(status) == changed_) return;
  throw Error({.what = "file: it was changed while it was read",
               .where = path_.string(),
               .got = fmt::format("{} bytes", status.st_size),
               .expected = fmt::format("{} bytes, as when it was opened", size_),
               .hint = "read it again when nothing writes to it"});
}

std::string read_file(const fs::path& path, size_t most) {
  const InputFile file(path);
  if (static_cast<size_t>(file.size()) > most) {
    throw Error({.what = "file: too large",
                 .where = path.string(),
                 .got = fmt::format("{} bytes", file.size()),
                 .expected = fmt::format("at most {} bytes", most)});
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void write_file_whole(const fs::path& path, const std::function<void(const FileSink&)>& fill) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode)) {
    cannot_write(path, fmt::format("{} is there", kind_of(status.st_mode)), "name another file");
  }
  if (path.has_parent_path()) make_folder(path.parent_path());
  Aside aside(path);
  fill([&](std::span<const std::byte> part) { aside.write(part); });
  aside.rename();
}

void write_file_whole(const fs::path& path, std::span<const std::span<const std::byte>> parts) {
  write_file_whole(path, [&](const FileSink& write) {
    for (const auto& part : parts) write(part);
  });
}

void write_file_whole(const fs::path& path, std::string_view text) {
  const std::array parts = {std::as_bytes(std::span(text))};
  write_file_whole(path, parts);
}

void copy_file_whole(const fs::path& from, const fs::path& to) {
  constexpr int64_t kStep = int64_t{1} << 20;
  const InputFile file(from);
  std::vector<std::byte> part;
  write_file_whole(to, [&](const FileSink& write) {
    for (int64_t at = 0; at < file.size(); at += std::ssize(part)) {
      part.resize(static_cast<size_t>(std::min(kStep, file.size() - at)));
      file.read(at, part);
      write(part);
    }
  });
}

}  // namespace headwise
