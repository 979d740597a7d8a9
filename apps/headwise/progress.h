// A line on standard error that says how far the work is, how fast it goes and how long it takes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace headwise::program {

/// A line that is written again and again: in a terminal in its place, ten times a second at most;
/// elsewhere a new line every 10 s. --quiet shows none.
class StatusLine {
 public:
  explicit StatusLine(bool quiet);
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool is_terminal() const { return terminal_; }
  /// Whether it is time to show something.
  bool is_due() const;
  void show(const std::string& text);
  void clear();  // takes the line away

 private:
  using Clock = std::chrono::steady_clock;
  bool quiet_, terminal_, shown_ = false;
  Clock::time_point last_ = Clock::now();
};

/// Work of one part, or of several, one after the other. Shown from its second second on.
class Progress {
 public:
  explicit Progress(bool quiet) : line_(quiet) {}
  Progress(int64_t total, std::string unit, bool quiet)
      : line_(quiet), part_(std::move(unit)), total_(total) {}

  /// So much more is done. A place to be interrupted at.
  void advance(int64_t done) { advance(part_, done_ + done, total_); }
  /// What is done of a part by now, and all of it.
  void advance(std::string_view part, int64_t done, int64_t total);

  void clear() { line_.clear(); }

 private:
  using Clock = std::chrono::steady_clock;
  StatusLine line_;
  std::string part_;
  int64_t done_ = 0, total_ = 0;
  Clock::time_point start_ = Clock::now();
};

}  // namespace headwise::program
