// --help of every command has an example, which the command line takes.
#include <gmock/gmock.h>

#include <sstream>
#include <string>
#include <vector>

#include "program/program.h"

namespace headwise {
namespace {

std::vector<std::string> lines_of_output(const std::vector<std::string>& arguments) {
  std::istringstream text(run_program(arguments).out);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

/// The commands that `headwise --help` lists.
std::vector<std::string> commands() {
  std::vector<std::string> names;
  bool listed = false;
  for (const std::string& line : lines_of_output({"--help"})) {
    if (listed && line.starts_with("  ") && line[2] != ' ') {
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
    listed = line.empty() ? false : listed || line == "Commands:";
  }
  return names;
}

/// Words as a shell splits them, of a line without escapes.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  char quote = 0;
  for (const char c : line) {
    if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else if (c == ' ' && quote == 0) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

TEST(Help, EveryCommandHasExamplesThatItTakes) {
  ASSERT_GE(commands().size(), 15);
  for (const std::string& command : commands()) {
    int examples = 0;
    for (const std::string& line : lines_of_output({command, "--help"})) {
      if (!line.starts_with("  headwise ")) continue;
      ++examples;
      std::vector<std::string> words = words_of(line.substr(2));
      words.erase(words.begin());
      EXPECT_EQ(words.front(), command) << line;
      // The files of an example are not there: 1. An option that there is not would be 2.
      // Those that need no files, and would write some.
      if (command == "probes" || command == "construct") continue;
      const ProgramResult result = run_program(words);
      EXPECT_NE(result.code, 2) << line << "\n" << result.errors;
    }
    EXPECT_GE(examples, 1) << command;
  }
}

}  // namespace
}  // namespace headwise
