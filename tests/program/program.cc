// A child process with files or a pipe in place of its standard streams.
#include "program/program.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <utility>

#include "golden/folder.h"

namespace headwise {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File temporary() {
  File file(std::tmpfile(), std::fclose);
  if (file == nullptr) throw std::runtime_error("no temporary file");
  return file;
}

std::string contents(std::FILE* file) {
  std::rewind(file);
  std::string text;
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, file)) > 0;) text.append(buffer, n);
  return text;
}

pid_t start(const std::vector<std::string>& arguments, std::array<int, 3> streams,
            const std::vector<std::string>& environment = {}) {
  std::vector<const char*> argv = {"headwise"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no child");
  if (child > 0) return child;
  for (int i = 0; i < 3; ++i) dup2(streams[i], i);
  for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
  execv(program_path().c_str(), const_cast<char* const*>(argv.data()));
  _exit(127);
}

int exit_code(pid_t child) {
  int status = 0;
  if (waitpid(child, &status, 0) != child) throw std::runtime_error("no child");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input,
                          const std::vector<std::string>& environment) {
  const File in = temporary(), out = temporary(), errors = temporary();
  std::fwrite(input.data(), 1, input.size(), in.get());
  std::fflush(in.get());
  std::rewind(in.get());
  const pid_t child =
      start(arguments, {fileno(in.get()), fileno(out.get()), fileno(errors.get())}, environment);
  const int code = exit_code(child);
  return {.code = code, .out = contents(out.get()), .errors = contents(errors.get())};
}

int interrupt_program(const std::vector<std::string>& arguments, const std::string& input) {
  int ends[2] = {};
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const File out = temporary(), errors = temporary();
  const pid_t child = start(arguments, {ends[0], fileno(out.get()), fileno(errors.get())});
  int unread = write(ends[1], input.data(), input.size()) > 0 ? 1 : 0;
  for (int i = 0; i < 6000 && unread > 0; ++i) {
    usleep(10'000);
    if (ioctl(ends[1], FIONREAD, &unread) != 0) break;
  }
  usleep(100'000);  // from reading the last byte to waiting for the next
  kill(child, SIGINT);
  const int code = exit_code(child);
  close(ends[0]);
  close(ends[1]);
  return code;
}

std::string program_path() { return HEADWISE_PROGRAM; }

StartedProgram::StartedProgram(const std::vector<std::string>& arguments) {
  int ends[2] = {};
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  child_ = start(arguments, {STDIN_FILENO, ends[1], STDERR_FILENO});
  close(ends[1]);
  out_ = ends[0];
}

StartedProgram::~StartedProgram() {
  if (child_ > 0) stop(SIGKILL);
  close(out_);
}

std::string StartedProgram::read_line() {
  std::string line;
  for (char c = 0; c != '\n' && read(out_, &c, 1) == 1;) line += c;
  return line;
}

int StartedProgram::stop(int signal) {
  kill(child_, signal);
  return exit_code(std::exchange(child_, -1));
}

std::string golden_model_path(const std::string& name) { return golden_model(name).string(); }

}  // namespace headwise
