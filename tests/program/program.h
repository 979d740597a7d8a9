// Runs the program as a user does: arguments in; exit code, standard output and error out.
#pragma once

#include <string>
#include <vector>

namespace headwise {

struct ProgramResult {
  int code = 0;
  std::string out{};
  std::string errors{};
};

/// `input` is its standard input; neither output is a terminal.
ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input = "");

/// Its exit code when it gets Ctrl-C after it has read `input` and while it waits for more.
int interrupt_program(const std::vector<std::string>& arguments, const std::string& input);

/// The program that the build made.
std::string program_path();

/// tests/golden/models/NAME
std::string golden_model(const std::string& name);

}  // namespace headwise
