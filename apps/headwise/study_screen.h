// A study for people: progress while it runs, and what it found.
#pragma once

#include <chrono>
#include <string>

#include "headwise/study/study.h"

namespace headwise::program {

/// One line on standard error that says which stage is under way and how long it takes. A new line
/// every 10 s where standard error is no terminal.
class StudyProgressLine {
 public:
  explicit StudyProgressLine(bool quiet);
  void show(const StudyProgress& progress);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool quiet_, terminal_, shown_ = false;
  Clock::time_point last_ = Clock::now();
};

/// What the heads do, what can be removed and what that saves; `verbose`: every table.
std::string to_text(const Study& study, const std::string& out, bool verbose);

}  // namespace headwise::program
