// What the commands of the program share: common options, and the way results leave it.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/grouped.h"
#include "interrupt.h"

namespace CLI {  // of <CLI/CLI.hpp>, which takes long to compile
class App;
}  // namespace CLI

namespace headwise::program {

using Json = nlohmann::ordered_json;

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
void add_construct(CLI::App& app, CommonOptions& common);
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

/// The result, whole: to standard output, or to --out unless that is for an array.
void write_output(const CommonOptions& common, std::string_view text);

/// The result on standard output, whatever --out is.
void print_result(std::string_view text);

/// The result of a stage: --out gets the JSON, standard output the JSON or what people read. What
/// the file has is said on standard error: "the plan".
void write_stage(const CommonOptions& common, std::string_view json, std::string_view text,
                 const char* what);

/// Text on standard error. Where that cannot be written, nobody can be told, and the work goes on.
void print_error(std::string_view text);

/// A word on standard error, unless --quiet.
void log_info(const CommonOptions& common, std::string_view text);

/// {"what": …, "where": …, …} of an error.
Json error_json(const ErrorDetail& detail);

/// What was asked for on the command line does not go together; exit code 2.
[[noreturn]] void usage_error(const std::string& message);
void usage_error_if(bool wrong, const std::string& message);

}  // namespace headwise::program
