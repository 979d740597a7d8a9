// How progress is shown.
#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "command.h"

namespace headwise::program {

StatusLine::StatusLine(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) != 0) {}

bool StatusLine::is_due() const {
  const auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::seconds(10);
  return !quiet_ && Clock::now() - last_ >= pause;
}

void StatusLine::show(const std::string& text) {
  print_error(terminal_ ? fmt::format("\r\x1b[K{}", text) : fmt::format("headwise: {}\n", text));
  shown_ = true;
  last_ = Clock::now();
}

void StatusLine::clear() {
  if (std::exchange(shown_, false) && terminal_) print_error("\r\x1b[K");
}

void Progress::advance(std::string_view part, int64_t done, int64_t total) {
  throw_if_interrupted();
  if (part_ != part || done < done_) {
    part_ = part;
    start_ = Clock::now();
    line_.clear();
  }
  done_ = done;
  total_ = total;
  const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  if (seconds < 1 || done >= total || !line_.is_due()) return;
  const double rate = static_cast<double>(done) / seconds;
  line_.show(fmt::format("{} of {} {}, {:.3g} per second, {:.0f} s left", grouped(done),
                         grouped(total), part, rate, static_cast<double>(total - done) / rate));
}

}  // namespace headwise::program
