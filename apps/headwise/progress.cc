// How progress is shown.
#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "command.h"

namespace headwise::program {

Progress::Progress(int64_t total, std::string unit, bool quiet)
    : total_(total), unit_(std::move(unit)), silent_(quiet || isatty(STDERR_FILENO) == 0) {}

Progress::~Progress() {
  if (shown_) print_error("\r\x1b[K");
}

void Progress::advance(int64_t done) {
  throw_if_interrupted();
  done_ += done;
  const auto now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (silent_ || seconds < 1 || done_ >= total_) return;
  if (shown_ && now - last_ < std::chrono::milliseconds(100)) return;
  const double rate = static_cast<double>(done_) / seconds;
  const double left = static_cast<double>(total_ - done_) / rate;
  print_error(fmt::format("\r\x1b[K{} of {} {}, {:.3g} per second, {:.0f} s left", grouped(done_),
                          grouped(total_), unit_, rate, left));
  shown_ = true;
  last_ = now;
}

void PartProgress::advance(std::string_view part, int64_t done, int64_t total) {
  if (part_ != part || done < done_) {
    line_.emplace(total, std::string(part), quiet_);
    part_ = part;
    done_ = 0;
  }
  line_->advance(done - done_);
  done_ = done;
}

}  // namespace headwise::program
