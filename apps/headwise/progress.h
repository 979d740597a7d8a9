// A line on standard error that says how far the work is, how fast it goes and how long it takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace headwise::program {

/// Silent unless standard error is a terminal and the work takes longer than a second.
class Progress {
 public:
  Progress(int64_t total, std::string unit, bool quiet);
  ~Progress();  // takes the line away

  /// Also a place to be interrupted at.
  void advance(int64_t done);

 private:
  using Clock = std::chrono::steady_clock;
  int64_t total_, done_ = 0;
  std::string unit_;
  bool shown_ = false, silent_;
  Clock::time_point start_ = Clock::now(), last_ = start_;
};

/// The same for work of several parts, one after the other.
class PartProgress {
 public:
  explicit PartProgress(bool quiet) : quiet_(quiet) {}

  /// What is done of a part by now, and all of it.
  void advance(std::string_view part, int64_t done, int64_t total);

 private:
  bool quiet_;
  std::optional<Progress> line_;
  std::string part_;
  int64_t done_ = 0;
};

}  // namespace headwise::program
