// What a benchmark is asked, and what it answers: options, results, a table for people, JSON for
// scripts.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace headwise::bench {

struct Options {
  std::string peer;          // a Python interpreter; empty: only ours is measured
  std::vector<int> threads;  // numbers of threads to measure with
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

  std::optional<bool> met() const;
};

/// Parses the command line, runs `measure`, which hands over results one by one as they come, and
/// prints them. Returns the exit code.
int run_benchmark(
    int argc, char** argv, const std::string& title,
    const std::function<void(const Options&, const std::function<void(Result)>&)>& measure);

}  // namespace headwise::bench
