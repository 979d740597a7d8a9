// Runs the program as a user does: arguments in; exit code, standard output and error out.
#pragma once

#include <string>
#include <vector>

namespace headwise {

struct ProgramResult {
  int code = 0;  // -1: it was ended by a signal
  std::string out{};
  std::string errors{};
};

/// `input` is its standard input; neither output is a terminal. `environment` has variables, as
/// NAME=VALUE, that it gets besides those of this process.
ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input = "",
                          const std::vector<std::string>& environment = {});

/// Its exit code when it gets Ctrl-C after it has read `input` and while it waits for more.
int interrupt_program(const std::vector<std::string>& arguments, const std::string& input);

/// The program that the build made.
std::string program_path();

/// The program at work. Who is still running at the end is killed.
class StartedProgram {
 public:
  explicit StartedProgram(const std::vector<std::string>& arguments);
  ~StartedProgram();
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;

  int id() const { return child_; }
  /// Waits for the next line of its standard output; what there is of it when that ends.
  std::string read_line();
  /// Sends the signal and waits for the end; gives the exit code.
  int stop(int signal);

 private:
  int child_ = -1, out_ = -1;
};

/// tests/golden/models/NAME
std::string golden_model_path(const std::string& name);

}  // namespace headwise
