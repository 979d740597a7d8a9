// Common options, output.
#include "command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/io/output_file.h"
#include "options.h"

namespace headwise::program {

void add_common(CLI::App& app, CommonOptions& common) {
  app.set_version_flag("--version", "headwise " HEADWISE_VERSION);
  Options options(app);
  options.flag("--json", common.json, "Print one JSON document on standard output");
  options.add("--threads", common.threads, "N", "Threads to use; default: all cores",
              whole_number(1, 1024));
  options.add("--seed", common.seed, "S", "Of random numbers; default: 0", finite(0))
      ->each([&common](const std::string&) { common.has_seed = true; });
  options.flag("--quiet", common.quiet, "No progress and no remarks on standard error");
  options.add("-o,--out", common.out, "PATH", "Write the result to this file or folder");
}

CLI::App& add_command(CLI::App& app, const std::string& name, const std::string& description,
                      const std::string& example, CommonOptions& common,
                      std::function<void()> run) {
  CLI::App& command = *app.add_subcommand(name, description);
  command.group("Commands");
  command.footer(example);
  add_common(command, common);
  command.callback([&common, run = std::move(run)] {
    if (common.threads > 0) set_threads(common.threads);
    run();
  });
  return command;
}

void write_output(const CommonOptions& common, std::string_view text) {
  if (common.out.empty() || common.out_is_array()) {
    print_result(text);
  } else {
    write_file_whole(common.out, text);
  }
}

void print_result(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw_if_interrupted();
    throw Error({.what = "the result could not be written",
                 .where = "standard output",
                 .hint = "is the disk full?"});
  }
}

void write_stage(const CommonOptions& common, std::string_view json, std::string_view text,
                 const char* what) {
  if (!common.out.empty()) write_file_whole(common.out, json);
  print_result(common.json ? json : text);
  if (!common.out.empty()) log_info(common, fmt::format("{} has {}", common.out, what));
}

void print_error(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

void log_info(const CommonOptions& common, std::string_view text) {
  if (!common.quiet) print_error(fmt::format("headwise: {}\n", text));
}

Json error_json(const ErrorDetail& detail) {
  return {{"what", detail.what},
          {"where", detail.where},
          {"got", detail.got},
          {"expected", detail.expected},
          {"hint", detail.hint}};
}

void usage_error(const std::string& message) {
  throw CLI::ValidationError(message, CLI::ExitCodes::ValidationError);
}

void usage_error_if(bool wrong, const std::string& message) {
  if (wrong) usage_error(message);
}

}  // namespace headwise::program
