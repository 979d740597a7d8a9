// A child process with files in place of its standard streams.
#include "program/program.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>

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

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input) {
  const File in = temporary(), out = temporary(), errors = temporary();
  std::fwrite(input.data(), 1, input.size(), in.get());
  std::fflush(in.get());
  std::rewind(in.get());
  std::vector<const char*> argv = {"headwise"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(fileno(in.get()), 0);
    dup2(fileno(out.get()), 1);
    dup2(fileno(errors.get()), 2);
    execv(HEADWISE_PROGRAM, const_cast<char* const*>(argv.data()));
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) throw std::runtime_error("no child");
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return {.code = code, .out = contents(out.get()), .errors = contents(errors.get())};
}

std::string golden_model(const std::string& name) {
  return std::string(HEADWISE_GOLDEN) + "/models/" + name;
}

}  // namespace headwise
