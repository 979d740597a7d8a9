// Appends to a file that is never rewritten.
#include "train/run_log.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>
#include <system_error>

#include "headwise/core/error.h"
#include "io/file.h"

namespace headwise {

RunLog::RunLog(const std::filesystem::path& file, int64_t bytes)
    : path_(file), file_(file, O_WRONLY | O_CREAT | O_APPEND), bytes_(bytes) {
  if (!file_.is_open()) fail();
  std::error_code ignored;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(file, ignored));
  bytes_ = std::min(bytes, size);  // the log may have been taken away
  if (!file_.truncate(bytes_)) fail();
  sync_names(file.parent_path());
}

void RunLog::add(std::string_view record) {
  const std::string line = std::string(record) + "\n";
  if (!file_.write(std::as_bytes(std::span(line)))) fail();
  bytes_ += static_cast<int64_t>(line.size());
}

void RunLog::sync() {
  if (!file_.sync()) fail();
}

void RunLog::fail() const {
  const int error = errno;
  throw Error({.what = "file: cannot be written",
               .where = path_.string(),
               .got = std::generic_category().message(error),
               .hint = "make room, then go on with --resume"});
}

}  // namespace headwise
