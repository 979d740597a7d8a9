// Being stopped: by Ctrl-C or SIGTERM, or for a reason of one thread's own.
#pragma once

#include <functional>

namespace headwise::program {

/// Thrown after Ctrl-C or SIGTERM, from places where nothing is half done.
struct Interrupted {};
void listen_for_interrupt();
bool was_interrupted();
void throw_if_interrupted();

/// While it lives, throw_if_interrupted also calls `check` of the innermost one of its thread,
/// which throws to stop the work for another reason.
class StopCheck {
 public:
  explicit StopCheck(std::function<void()> check);
  ~StopCheck();
  StopCheck(const StopCheck&) = delete;
  StopCheck& operator=(const StopCheck&) = delete;

 private:
  friend void throw_if_interrupted();
  std::function<void()> check_;
  const StopCheck* outer_;
};

}  // namespace headwise::program
