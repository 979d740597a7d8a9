// Signals, and what else stops work.
#include "interrupt.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <utility>

namespace headwise::program {
namespace {

std::atomic<bool> interrupted = false;
thread_local const StopCheck* innermost = nullptr;

void on_interrupt(int) {
  if (interrupted.exchange(true)) std::_Exit(130);  // the second time, at once
}

}  // namespace

void listen_for_interrupt() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: who waits for input is woken
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of the write
}
bool was_interrupted() { return interrupted; }
void throw_if_interrupted() {
  if (interrupted) throw Interrupted();
  if (innermost != nullptr) innermost->check_();
}

StopCheck::StopCheck(std::function<void()> check)
    : check_(std::move(check)), outer_(std::exchange(innermost, this)) {}
StopCheck::~StopCheck() { innermost = outer_; }

}  // namespace headwise::program
