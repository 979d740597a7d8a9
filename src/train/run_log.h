// log.jsonl: one record a line, cut back to where a training goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "io/descriptor.h"

namespace headwise {

class RunLog {
 public:
  /// Opens the file for writing behind its first `bytes` bytes; the rest goes.
  RunLog(const std::filesystem::path& file, int64_t bytes);

  /// Adds a line. Throws Error if it cannot be written.
  void add(std::string_view record);

  /// What was added is on the disk.
  void sync();

  int64_t bytes() const { return bytes_; }

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  Descriptor file_;
  int64_t bytes_;
};

}  // namespace headwise
