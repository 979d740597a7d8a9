// What the commands of the program share: common options, and the way results leave it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/core/grouped.h"
#include "interrupt.h"

namespace CLI {  // of <CLI/CLI.hpp>, which takes long to compile
class App;
class Option;
class Validator;
}  // namespace CLI

namespace headwise::program {

struct CommonOptions {
  bool json = false;
  bool quiet = false;
  int threads = 0;  // 0: all cores
  uint64_t seed = 0;
  bool has_seed = false;  // it was given
  std::string out{};      // empty: standard output
  std::string command{};  // the whole command line, as a shell takes it

  bool out_is_array() const { return out.ends_with(".npy"); }
};

/// --version and the options above, before the command or behind it.
void add_common(CLI::App& app, CommonOptions& common);

/// Adds a command with the common options; `run` is called when it was parsed.
CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& example, CommonOptions& common, std::function<void()> run);

void add_inspect(CLI::App& app, CommonOptions& common);
void add_run(CLI::App& app, CommonOptions& common);
void add_attend(CLI::App& app, CommonOptions& common);
void add_observe(CLI::App& app, CommonOptions& common);
void add_judge(CLI::App& app, CommonOptions& common);
void add_plan(CLI::App& app, CommonOptions& common);
void add_compare(CLI::App& app, CommonOptions& common);
void add_probes(CLI::App& app, CommonOptions& common);
void add_prune(CLI::App& app, CommonOptions& common);
void add_export(CLI::App& app, CommonOptions& common);
void add_report(CLI::App& app, CommonOptions& common);
void add_study(CLI::App& app, CommonOptions& common);
void add_train(CLI::App& app, CommonOptions& common);
void add_sweep(CLI::App& app, CommonOptions& common);
void add_experiment(CLI::App& app, CommonOptions& common);
void add_serve(CLI::App& app, CommonOptions& common);

/// Checks that an option is a number, neither infinite nor below `least`, and says so in words.
CLI::Validator finite(std::optional<double> least = std::nullopt);

/// "0.6" or "60%" of something; none for what is no share. Checks that an option is one, and not
/// above `most`.
std::optional<double> parse_share(std::string_view text);
CLI::Validator is_share(double most = 1);

/// Options that may be given several times, one value each.
CLI::Option* add_list(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                      const std::string& description);

/// The result, whole: to standard output, or to --out unless that is for an array.
void write_output(const CommonOptions& common, std::string_view text);

/// Text on standard error. Where that cannot be written, nobody can be told, and the work goes on.
void print_error(std::string_view text);

/// A word on standard error, unless --quiet.
void log_info(const CommonOptions& common, std::string_view text);

/// What was asked for on the command line does not go together; exit code 2.
[[noreturn]] void usage_error(const std::string& message);

/// "7 s", "3 min", "2 h 5 min"
std::string duration(double seconds);

}  // namespace headwise::program
