// Appends to a file that is never rewritten.
#include "train/run_log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "headwise/core/error.h"

namespace headwise {

RunLog::RunLog(const std::filesystem::path& file, int64_t bytes)
    : path_(file), file_(std::fopen(file.c_str(), "ab")), bytes_(bytes) {
  if (file_ == nullptr) fail();
  std::error_code ignored;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, ignored));
  bytes_ = std::min(bytes, size);  // the log may have been taken away
  if (::ftruncate(fileno(file_.get()), bytes_) != 0) fail();
}

void RunLog::add(std::string_view record) {
  const std::string line = std::string(record) + "\n";
  if (std::fwrite(line.data(), 1, line.size(), file_.get()) != line.size() ||
      std::fflush(file_.get()) != 0) {
    fail();
  }
  bytes_ += static_cast<int64_t>(line.size());
}

void RunLog::sync() {
  if (::fsync(fileno(file_.get())) != 0) fail();
}

void RunLog::fail() const {
  const int error = errno;
  throw Error({.what = "file: cannot be written",
               .where = path_.string(),
               .got = std::generic_category().message(error),
               .hint = "make room, then go on with --resume"});
}

}  // namespace headwise
