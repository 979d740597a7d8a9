// log.jsonl: one record a line, cut back to where a training goes on.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

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
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  int64_t bytes_;
};

}  // namespace headwise
