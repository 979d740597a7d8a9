// The command line: parses the verb, runs it, turns errors into messages and exit codes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app{"headwise: what every attention head does, and what could stand in for it"};
  app.set_version_flag("--version", "headwise " HEADWISE_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  fmt::print("{}", app.help());
  return 0;
}
