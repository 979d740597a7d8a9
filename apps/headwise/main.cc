// The command line: parses the command, runs it, turns errors into messages and exit codes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>
#include <vector>

#include "command.h"
#include "headwise/core/error.h"
#include "headwise/core/nearest_name.h"
#include "headwise/io/json_text.h"

namespace headwise::program {
namespace {

enum ExitCode { kDone = 0, kFailure = 1, kUsageError = 2, kInterrupted = 130 };

/// --json holds for errors too, even for those that keep it from being parsed.
bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

/// The command line again, for whoever wants to repeat it.
std::string command_line(int argc, char** argv) {
  std::string line = "headwise";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool plain = !word.empty() && word.find_first_not_of(
                                            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                            "0123456789_-+=./:,%@") == std::string_view::npos;
    line += plain ? " " : " '";
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    if (!plain) line += "'";
  }
  return line;
}

ExitCode fail(ExitCode code, const ErrorDetail& detail, bool json) {
  print_error(fmt::format("headwise: {}\n", Error(detail).what()));
  if (!json) return code;
  const std::string document = json_text({{"error", error_json(detail)}});
  (void)std::fwrite(document.data(), 1, document.size(), stdout);
  return code;
}

std::string help_command(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands())
    return fmt::format("{} --help", command->get_name());
  return "--help";
}

/// The name that was meant, if one is near; else where names are listed.
std::string suggestion(std::string_view got, const std::vector<std::string>& names,
                       const std::string& help) {
  const std::string meant = did_you_mean(got, names);
  return meant.empty() ? fmt::format("headwise {}", help) : meant;
}

/// The program and the command that was chosen: both have options.
std::vector<const CLI::App*> with_command(const CLI::App& app) {
  std::vector<const CLI::App*> both = {&app};
  for (const CLI::App* command : app.get_subcommands()) both.push_back(command);
  return both;
}

/// What is wrong with the command line.
ErrorDetail usage_error_of(const CLI::App& app, const CLI::ParseError& error, char** argv) {
  const std::vector<std::string> rest = app.remaining(true);
  if (rest.empty()) {
    return {.what = error.what(), .hint = fmt::format("headwise {}", help_command(app))};
  }
  std::string_view got;  // the first word that nobody took
  for (; *argv != nullptr && got.empty(); ++argv) {
    if (std::ranges::find(rest, *argv) != rest.end()) got = *argv;
  }
  if (got.starts_with('-')) {
    std::vector<std::string> options;
    for (const CLI::App* of : with_command(app)) {
      for (const CLI::Option* option : of->get_options()) {
        for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
      }
    }
    return {.what = "there is no such option",
            .got = std::string(got),
            .hint = suggestion(got, options, help_command(app))};
  }
  if (!app.get_subcommands().empty()) {
    return {.what = "this was not expected",
            .got = std::string(got),
            .hint = fmt::format("headwise {}", help_command(app))};
  }
  std::vector<std::string> commands;
  for (const CLI::App* command : app.get_subcommands({})) commands.push_back(command->get_name());
  return {.what = "there is no such command",
          .got = std::string(got),
          .expected = fmt::format("{}", fmt::join(commands, ", ")),
          .hint = suggestion(got, commands, help_command(app))};
}

/// Memory for the end. What frees and fills JSON allocates a little, and ends the program where
/// there is nothing: the first allocation that finds none takes this.
std::atomic<void*> reserve = nullptr;

void use_reserve() {
  void* const held = reserve.exchange(nullptr);
  if (held == nullptr) throw std::bad_alloc();
  std::free(held);
}

void hold_reserve() {
  constexpr size_t kBytes = size_t{1} << 20;
  reserve = std::malloc(kBytes);
  std::set_new_handler(use_reserve);
}

/// Parses the command line and runs the command.
ExitCode run(int argc, char** argv, bool json) {
  CommonOptions common{.command = command_line(argc, argv)};
  CLI::App app{"headwise: what every attention head does, and what could stand in for it",
               "headwise"};
  add_common(app, common);
  app.footer("headwise COMMAND --help says more about a command, with an example.");
  app.get_formatter()->label("SUBCOMMAND", "COMMAND");
  app.require_subcommand(0, 1);
  add_study(app, common);
  add_inspect(app, common);
  add_run(app, common);
  add_attend(app, common);
  add_observe(app, common);
  add_judge(app, common);
  add_plan(app, common);
  add_prune(app, common);
  add_export(app, common);
  add_report(app, common);
  add_compare(app, common);
  add_probes(app, common);
  add_construct(app, common);
  add_train(app, common);
  add_sweep(app, common);
  add_experiment(app, common);
  add_serve(app, common);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return static_cast<ExitCode>(app.exit(error));
    return fail(kUsageError, usage_error_of(app, error, argv + 1), json);
  }
  if (app.get_subcommands().empty()) fmt::print("{}", app.help());
  return kDone;
}

/// The same; what is thrown becomes a message and an exit code.
ExitCode run_and_report(int argc, char** argv) {
  const bool json = asks_for_json(argc, argv);
  try {
    return run(argc, argv, json);
  } catch (const Error& error) {
    return fail(kFailure, error.detail(), json);
  } catch (const Interrupted&) {
    return fail(kInterrupted, {.what = "interrupted"}, json);
  } catch (const std::bad_alloc&) {
    return fail(kFailure, {.what = "out of memory", .hint = "give it less at once"}, json);
  } catch (const std::exception& error) {
    return fail(kFailure, {.what = error.what()}, json);
  }
}

}  // namespace
}  // namespace headwise::program

int main(int argc, char** argv) {
  headwise::program::hold_reserve();
  headwise::program::listen_for_interrupt();
  return headwise::program::run_and_report(argc, argv);
}
