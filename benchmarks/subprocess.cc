// Pipes, fork, exec and wait.
#include "subprocess.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "headwise/core/error.h"

namespace headwise::bench {
namespace {

constexpr int kNotFound = 127;  // as shells have it

std::pair<int, int> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    throw Error({.what = "subprocess: no pipe could be made", .got = std::strerror(errno)});
  }
  return {ends[0], ends[1]};
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& command) : name_(command.at(0)) {
  signal(SIGPIPE, SIG_IGN);  // a dead child is told by write()
  const auto [child_in, in] = make_pipe();
  const auto [out, child_out] = make_pipe();
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);

  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    signal(SIGPIPE, SIG_DFL);
    dup2(child_in, STDIN_FILENO);
    dup2(child_out, STDOUT_FILENO);
    execvp(arguments[0], arguments.data());
    _exit(kNotFound);
  }
  close(child_in);
  close(child_out);
  in_ = in;
  out_ = out;
  if (pid_ < 0) {
    close(in_);
    close(out_);
    throw Error({.what = "subprocess: fork failed", .where = name_, .got = std::strerror(errno)});
  }
}

Subprocess::~Subprocess() {
  if (in_ >= 0) close(in_);
  if (out_ >= 0) close(out_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);  // reaches it asleep or awake, and there is nothing it could save
    waitpid(pid_, nullptr, 0);
  }
}

void Subprocess::fail() {
  int status = 0;
  if (pid_ > 0) {
    usleep(50'000);       // one that is just ending shall end its own way
    kill(pid_, SIGKILL);  // does nothing to one that has ended already
    waitpid(pid_, &status, 0);
  }
  pid_ = -1;
  std::string end = fmt::format("ended with exit code {}", WEXITSTATUS(status));
  if (WIFSIGNALED(status)) end = fmt::format("ended by signal {}", WTERMSIG(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound) end = "could not be started";
  throw Error({.what = "subprocess: it is gone",
               .where = name_,
               .got = end,
               .expected = "an answer",
               .hint = "what it printed on standard error, above, may tell why"});
}

void Subprocess::write_line(const std::string& line) {
  const std::string text = line + '\n';
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = write(in_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail();
    done += n;
  }
}

void Subprocess::fill() {
  char chunk[1 << 16];
  ssize_t n;
  do {
    n = read(out_, chunk, sizeof chunk);
  } while (n < 0 && errno == EINTR);
  if (n <= 0) fail();
  buffer_.append(chunk, n);
}

std::string Subprocess::read_line() {
  size_t end;
  while ((end = buffer_.find('\n')) == std::string::npos) fill();
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

void Subprocess::read_bytes(char* bytes, size_t count) {
  while (buffer_.size() < count) fill();
  std::copy_n(buffer_.data(), count, bytes);
  buffer_.erase(0, count);
}

void Subprocess::stop() {
  if (pid_ <= 0) return;  // a signal to -1 would reach everybody
  kill(pid_, SIGSTOP);
  int status = 0;
  if (waitpid(pid_, &status, WUNTRACED) == pid_ && !WIFSTOPPED(status)) {
    pid_ = -1;  // reaped: it had ended
    throw Error({.what = "subprocess: it is gone", .where = name_, .expected = "a running child"});
  }
}

void Subprocess::resume() {
  if (pid_ > 0) kill(pid_, SIGCONT);
}

}  // namespace headwise::bench
