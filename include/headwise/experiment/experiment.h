// Claims about heads as experiments that can fail (`headwise experiment`).
//
// experiments/NAME has what is claimed and how it is tested (claim.md), the settings, and the
// result that was committed. docs/experiments.md describes the files and how to add a claim.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/observe/evidence.h"

namespace headwise {

/// A claim and how it is tested, as it was when the library was built.
struct ExperimentInfo {
  std::string_view name{};      // of its folder
  std::string claim{};          // one sentence: the title of claim.md
  std::string source{};         // who says so: its line "Source: …"
  std::string_view design{};    // claim.md
  std::string_view settings{};  // settings.json
  std::string_view verdict{};   // result/verdict.json; empty: it was not run yet
  /// Of a claim that has a design only, the line "Not decided here: …": what would decide it.
  std::string not_decided{};
};

/// All of them: those that can be run in the order of the registry, then the others.
std::span<const ExperimentInfo> experiments();

/// By its name; throws Error that lists the names.
const ExperimentInfo& experiment(std::string_view name);

enum class ClaimOutcome {
  confirmed,
  refuted,
  depends,      // on something that the experiment varies
  not_decided,  // the trials do not suffice, or are not all there
};
std::string_view to_string(ClaimOutcome outcome);

/// One test of the family that is corrected for.
struct ClaimTest {
  std::string name{};
  double figure = 0;
  std::optional<ConfidenceInterval> interval{};  // 95 %, of this test alone
  int64_t n = 0;
  double p = 1;       // of this test alone
  double p_holm = 1;  // corrected for the family (Holm 1979)
  bool operator==(const ClaimTest&) const = default;
};

/// What the trials of an experiment say about its claim: the content of verdict.json.
struct ClaimVerdict {
  std::string experiment{};
  ClaimOutcome outcome = ClaimOutcome::not_decided;
  std::string depends_on{};  // of `depends`: on what
  std::string why{};         // in plain words, with numbers

  // The number that stands for the result.
  std::string figure_name{};
  std::optional<double> figure{};
  std::optional<ConfidenceInterval> interval{};
  int64_t n = 0;
  std::vector<ClaimTest> family{};

  bool quick = false;                // of --quick: says nothing about the claim
  int64_t trials = 0, left = 0;      // done, and still to be done
  double seconds = 0;                // of all trials
  uint64_t seed = 0;                 // that the run was started with
  std::string machine{}, started{};  // of the run
  std::string version{};             // of the program
  std::vector<std::string> used{};   // "stories15m 3f2a…": models and data with their SHA-256

  std::string plot{};  // an SVG document; not in verdict.json
  bool operator==(const ClaimVerdict&) const = default;
};

/// The text of verdict.json, with numbers of six digits, and back.
std::string to_json(const ClaimVerdict& verdict);
ClaimVerdict claim_verdict_from_json(std::string_view text, const std::string& where);

struct ExperimentOptions {
  bool quick = false;  // at most 10 s with models that the library makes: checks the machinery
  /// Folders or ids of models. The settings name a model by the last part of its folder. Trials
  /// whose model is not given are left for another run.
  std::vector<std::string> models{};
  std::filesystem::path data = "../shared/data";  // the folder of the files that the settings name
  uint64_t seed = 0;

  /// The trial that is under way, its number among all, and what is done of it. May throw to stop.
  std::function<void(std::string_view trial, int64_t number, int64_t trials, int64_t done,
                     int64_t total)>
      progress{};
};

/// Runs the trials of an experiment that the folder does not have yet. Each leaves a line in
/// trials.jsonl as it ends. Then the verdict is derived from them: verdict.json and plot.svg.
/// Throws Error if the folder has trials of other settings.
ClaimVerdict run_experiment(std::string_view name, const std::filesystem::path& folder,
                            const ExperimentOptions& options = {});

/// Derives the verdict from trials.jsonl of a folder, and from nothing else.
ClaimVerdict judge_experiment(const std::filesystem::path& folder);

/// docs/claims.md: all claims with the verdicts of the results that a folder like experiments/ has,
/// derived again from their trials.
std::string claims_table(const std::filesystem::path& folder);

}  // namespace headwise
