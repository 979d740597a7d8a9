// Command line, table and JSON.
#include "report.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "fma_probe.h"

namespace headwise::bench {
namespace {

constexpr double kEqual = 0.08;  // differences below this are noise to a person

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

template <class T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

nlohmann::json to_json(const Result& result) {
  return {{"name", result.name},
          {"unit", result.unit},
          {"ours", result.ours},
          {"peer", or_null(result.peer)},
          {"ratio", or_null(result.ratio)},
          {"goal", result.goal},
          {"higher_is_better", result.higher_is_better},
          {"goal_of", result.goal_is_of_ours ? "ours" : "ratio"},
          {"met", or_null(result.met())},
          {"disturbed", result.disturbed}};
}

nlohmann::json to_json(const ErrorDetail& detail) {
  return {{"what", detail.what},
          {"where", detail.where},
          {"got", detail.got},
          {"expected", detail.expected},
          {"hint", detail.hint}};
}

std::string row(const Result& result) {
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g}", *value) : "-";
  };
  std::string ratio = "-";
  if (result.ratio) {
    const bool equal = std::abs(*result.ratio - 1) < kEqual;
    ratio = fmt::format("{:.2f}{}", *result.ratio, equal ? " equal" : "");
  }
  const std::optional<bool> met = result.met();
  return fmt::format("{:<46} {:>9} {:>9} {:<22} {:>10} {:>7} {:>4}{}\n", result.name,
                     number(result.ours), number(result.peer), result.unit, ratio,
                     fmt::format("{} {:.4g}", result.higher_is_better ? "≥" : "≤", result.goal),
                     met ? (*met ? "yes" : "no") : "-", result.disturbed ? "  disturbed" : "");
}

void print_table(const std::vector<Result>& results) {
  fmt::print("{:<46} {:>9} {:>9} {:<22} {:>10} {:>7} {:>4}\n", "", "ours", "peer", "unit", "ratio",
             "goal", "met");
  for (const Result& result : results) fmt::print("{}", row(result));
}

/// The message, on standard error and, if asked for, as JSON.
int fail(const Options& options, const ErrorDetail& detail, const std::string& text) {
  fmt::print(stderr, "{}\n", text);
  if (options.json) fmt::print("{}\n", nlohmann::json{{"error", to_json(detail)}}.dump());
  return 1;
}

}  // namespace

bool Options::select(const std::string& name) const {
  std::map<std::string, bool> found;  // by key
  std::istringstream stream(name);
  const std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
  for (const std::string& filter : filters) {
    const size_t equals = filter.find('=');
    const std::string key = equals == std::string::npos ? "" : filter.substr(0, equals);
    found[key] |= std::find(words.begin(), words.end(), filter) != words.end();
  }
  return std::all_of(found.begin(), found.end(), [](const auto& entry) { return entry.second; });
}

std::optional<bool> Result::met() const {
  const std::optional<double> value = goal_is_of_ours ? ours : ratio;
  if (!value || disturbed) return {};
  return higher_is_better ? *value >= goal : *value <= goal;
}

void Report::add(Result result) {
  if (!options_.select(result.name)) return;
  std::string found = fmt::format("{:.4g} {}", result.ours, result.unit);
  if (result.ratio) found += fmt::format(", ratio {:.2f}", *result.ratio);
  fmt::print(stderr, "measured {}: {}{}\n", result.name, found,
             result.disturbed ? ", disturbed" : "");
  results_.push_back(std::move(result));
}

void Report::refused(const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  refused_.push_back(error.detail());
}

int Report::print() const {
  if (options_.json) {
    const int threads = *std::max_element(options_.threads.begin(), options_.threads.end());
    nlohmann::json document = {
        {"machine", {{"cpu", cpu_name()}, {"simd", simd_target()}, {"threads", threads}}},
        {"peer_as_installed", options_.peer_as_installed},
        {"results", nlohmann::json::array()}};
    for (const Result& result : results_) document["results"].push_back(to_json(result));
    if (!refused_.empty()) document["error"] = to_json(refused_.front());
    fmt::print("{}\n", document.dump(1));
  } else {
    print_table(results_);
    for (const ErrorDetail& detail : refused_) {
      fmt::print("{:<46} not measured: {}\n", detail.where, detail.what);
    }
  }
  return refused_.empty() ? 0 : 1;
}

int run_benchmark(int argc, char** argv, const std::string& title,
                  const std::function<void(const Options&, Report&)>& measure) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  Options options{.threads = cores > 1 ? std::vector{1, cores} : std::vector{1}};
  CLI::App app{title};
  app.add_option("--peer", options.peer, "Python interpreter that has torch; without: only ours");
  app.add_flag("--peer-as-installed", options.peer_as_installed,
               "do not preload jemalloc into the peer")
      ->needs("--peer");
  app.add_option("--threads", options.threads, "numbers of threads, e.g. 1,2")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 1024));
  app.add_option("--model", options.models, "folder of a model, for benchmarks of models or text")
      ->allow_extra_args(false);
  app.add_option("--text", options.texts, "file whose lines are texts; for pairs, twice")
      ->allow_extra_args(false);
  app.add_flag("--json", options.json, "print one JSON document");
  app.add_flag("--quick", options.quick, "fewer sizes and samples");
  app.add_option("filters", options.filters, "words of the names to measure, e.g. forward D=64");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  Report report(options);
  try {
    measure(options, report);
    if (report.empty()) {
      throw Error({.what = "bench: no row matches the filters",
                   .where = "filters",
                   .got = fmt::format("{}", fmt::join(options.filters, " ")),
                   .expected = "whole words of rows' names, such as forward D=64 N=512"});
    }
  } catch (const Error& error) {
    return fail(options, error.detail(), error.what());
  } catch (const std::exception& error) {
    return fail(options, {.what = error.what()}, error.what());
  }
  return report.print();
}

}  // namespace headwise::bench
