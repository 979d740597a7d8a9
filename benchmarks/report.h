// What a benchmark is asked, and what it answers: options, results, a table for people, JSON for
// scripts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "headwise/core/error.h"

namespace headwise::bench {

struct Options {
  std::string peer;                 // a Python interpreter; empty: only ours is measured
  bool peer_as_installed = false;   // without the allocator that makes it fast
  std::vector<int> threads;         // numbers of threads to measure with
  std::vector<std::string> models;  // folders, where a benchmark takes some
  std::vector<std::string> texts;   // files, where a benchmark takes some
  bool json = false;
  bool quick = false;
  std::vector<std::string> filters;

  /// A name is words like "forward D=64 N=512 threads=1"; filters are such words. Of filters with
  /// the same key (D, N, …, or none) one must be in the name, for every key that has filters.
  bool select(const std::string& name) const;
};

struct Result {
  std::string name;
  std::string unit;  // of ours and the peer's
  double ours = 0;
  std::optional<double> peer, ratio;  // ratio: ours over the peer's
  double goal = 0;
  bool higher_is_better = true;
  bool goal_is_of_ours = false;  // otherwise the goal is the ratio's
  bool disturbed = false;

  std::optional<bool> met() const;  // unknown if disturbed, or without a ratio
};

/// Where results go as they come.
class Report {
 public:
  explicit Report(const Options& options) : options_(options) {}

  /// Takes the result unless its row was not asked for.
  void add(Result result);

  /// Notes a row that is left out because what it would time is wrong; the run then fails, at its
  /// end.
  void refused(const Error& error);

  bool empty() const { return results_.empty() && refused_.empty(); }

  /// Prints the table or the JSON document, and returns the exit code.
  int print() const;

 private:
  const Options& options_;
  std::vector<Result> results_;
  std::vector<ErrorDetail> refused_;
};

/// Parses the command line, runs `measure` and prints its report. Returns the exit code.
int run_benchmark(int argc, char** argv, const std::string& title,
                  const std::function<void(const Options&, Report&)>& measure);

}  // namespace headwise::bench
