// Common options, output.
#include "command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/io/output_file.h"

namespace headwise::program {

void add_common(CLI::App& app, CommonOptions& common) {
  app.set_version_flag("--version", "headwise " HEADWISE_VERSION);
  app.add_flag("--json", common.json, "Print one JSON document on standard output");
  app.add_option("--threads", common.threads, "Threads to use; default: all cores")
      ->check(CLI::Range(1, 1024).description(""))
      ->type_name("N");
  app.add_option("--seed", common.seed, "Of random numbers; default: 0")
      ->check(finite(0))
      ->each([&common](const std::string&) { common.has_seed = true; })
      ->type_name("S");
  app.add_flag("--quiet", common.quiet, "No progress and no remarks on standard error");
  app.add_option("-o,--out", common.out, "Write the result to this file")->type_name("PATH");
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

CLI::Validator finite(std::optional<double> least) {
  const auto check = [least](const std::string& text) -> std::string {
    double value = 0;
    const char* const end = text.data() + text.size();
    const auto [after, error] = std::from_chars(text.data(), end, value);
    if (error != std::errc() || after != end || !std::isfinite(value)) {
      return fmt::format("{} is no number", text);
    }
    if (least && value < *least) return fmt::format("{} is below {}", text, *least);
    return "";
  };
  return CLI::Validator(check, "");
}

std::optional<double> parse_share(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || after != end || !std::isfinite(value) || value < 0) {
    return std::nullopt;
  }
  return percent ? value / 100 : value;
}

CLI::Validator is_share(double most) {
  const auto check = [most](const std::string& text) -> std::string {
    const std::optional<double> share = parse_share(text);
    if (!share) return fmt::format("{} is no share, such as 0.6 or 60%", text);
    if (*share <= most) return "";
    if (*share <= 100 * most && !text.ends_with('%')) {
      return fmt::format("{0} is more than all; did you mean {0}% or {1}?", text, *share / 100);
    }
    return fmt::format("{} is more than all", text);
  };
  return CLI::Validator(check, "");
}

CLI::Option* add_list(CLI::App& command, const std::string& names, std::vector<std::string>& values,
                      const std::string& description) {
  return command.add_option(names, values, description)->allow_extra_args(false);
}

void write_output(const CommonOptions& common, std::string_view text) {
  if (!common.out.empty() && !common.out_is_array()) {
    write_file_whole(common.out, text);
    return;
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!written || std::fflush(stdout) != 0) {
    throw_if_interrupted();
    throw Error({.what = "the result could not be written",
                 .where = "standard output",
                 .hint = "is the disk full?"});
  }
}

void print_error(std::string_view text) {
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fflush(stderr);
}

void log_info(const CommonOptions& common, std::string_view text) {
  if (!common.quiet) print_error(fmt::format("headwise: {}\n", text));
}

void usage_error(const std::string& message) {
  throw CLI::ValidationError(message, CLI::ExitCodes::ValidationError);
}

std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 120) return fmt::format("{} s", whole);
  const int64_t minutes = (whole + 30) / 60;
  return minutes < 120 ? fmt::format("{} min", minutes)
                       : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

}  // namespace headwise::program
