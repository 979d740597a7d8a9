// Runs, resumes and judges experiments; the committed results say what their trials say.
#include "headwise/experiment/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "experiment/experiment_kind.h"
#include "experiment/tiny_models.h"
#include "headwise/core/error.h"
#include "io/file.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

const fs::path kExperiments = HEADWISE_EXPERIMENTS_FOLDER;

json settings_of(const ExperimentInfo& info) { return json::parse(info.settings); }

std::string trials_of(const fs::path& folder) { return read_file(folder / "trials.jsonl"); }

TEST(Experiment, EveryFolderIsRegisteredOrSaysWhyNot) {
  std::set<std::string> kinds;
  for (const ExperimentKind& kind : experiment_kinds()) {
    kinds.insert(std::string(kind.name));
    EXPECT_NO_THROW(experiment(kind.name)) << kind.name << " has no claim.md";
  }
  for (const ExperimentInfo& info : experiments()) {
    SCOPED_TRACE(info.name);
    EXPECT_FALSE(info.claim.empty());
    EXPECT_FALSE(info.source.empty());
    EXPECT_NE(kinds.contains(std::string(info.name)), !info.not_decided.empty());
  }
  EXPECT_THROW(experiment("no-such-claim"), Error);
}

TEST(Experiment, SettingsPlanTrialsOfUniqueNames) {
  for (const ExperimentKind& kind : experiment_kinds()) {
    SCOPED_TRACE(kind.name);
    json settings = settings_of(experiment(kind.name));
    const json quick = settings.at("quick");
    settings.erase("quick");
    std::set<std::string> names;
    for (const ExperimentTrial& trial : kind.trials(settings)) {
      EXPECT_TRUE(names.insert(trial.name).second) << trial.name;
      EXPECT_FALSE(is_tiny_model(trial.model));
    }
    EXPECT_FALSE(names.empty());
    settings.update(quick);
    for (const ExperimentTrial& trial : kind.trials(settings)) {
      EXPECT_TRUE(trial.model.empty() || is_tiny_model(trial.model)) << trial.name;
    }
  }
}

/// What is committed is what the rules of today make of the committed trials.
TEST(Experiment, CommittedVerdictsFollowFromTheirTrials) {
  for (const ExperimentInfo& info : experiments()) {
    SCOPED_TRACE(info.name);
    const fs::path result = kExperiments / info.name / "result";
    if (!is_there(result / "trials.jsonl")) {
      EXPECT_FALSE(is_there(result));
      continue;
    }
    const ClaimVerdict verdict = judge_experiment(result);
    EXPECT_FALSE(verdict.quick);
    EXPECT_EQ(to_json(verdict), read_file(result / "verdict.json"));
    EXPECT_EQ(to_json(verdict), info.verdict);
    EXPECT_EQ(to_json(claim_verdict_from_json(info.verdict, "verdict.json")), info.verdict);
    if (!verdict.plot.empty()) {
      EXPECT_EQ(verdict.plot, read_file(result / "plot.svg"));
    }
    const json header = json::parse(trials_of(result).substr(0, trials_of(result).find('\n')));
    json settings = settings_of(info);
    settings.erase("quick");
    EXPECT_EQ(header.at("settings"), settings);
  }
}

TEST(Experiment, ThePageOfClaimsIsUpToDate) {
  EXPECT_EQ(claims_table(kExperiments), read_file(kExperiments / "../docs/claims.md"))
      << "headwise experiment --table experiments -o docs/claims.md";
}

/// The first trial of a quick run, then a stop.
TEST(Experiment, GoesOnWhereItWasStopped) {
  const std::string_view name = experiment_kinds()[0].name;
  TemporaryFolder folder;
  const ClaimVerdict whole = run_experiment(name, folder.path() / "whole", {.quick = true});
  EXPECT_TRUE(whole.quick);
  EXPECT_EQ(whole.left, 0);
  EXPECT_FALSE(is_there(folder.path() / "whole/trials.headwise-part"));

  // The last line was half written when the power went.
  const std::string trials = trials_of(folder.path() / "whole");
  fs::create_directories(folder.path() / "half");
  folder.write("half/trials.jsonl", trials.substr(0, trials.size() - 10));
  const ClaimVerdict half = judge_experiment(folder.path() / "half");
  EXPECT_EQ(half.left, 1);
  EXPECT_EQ(half.outcome, ClaimOutcome::not_decided);
  EXPECT_THAT(half.why, HasSubstr("not done"));

  const ClaimVerdict resumed = run_experiment(name, folder.path() / "half", {.quick = true});
  EXPECT_EQ(resumed.left, 0);
  EXPECT_EQ(resumed.why, whole.why);
  EXPECT_EQ(resumed.family, whole.family);
  EXPECT_EQ(resumed.used, whole.used);  // the same model, to the bit
  EXPECT_EQ(judge_experiment(folder.path() / "half"), resumed);
}

TEST(Experiment, RefusesAFolderOfAnotherRun) {
  const std::string_view name = experiment_kinds()[0].name;
  TemporaryFolder folder;
  folder.write("trials.jsonl", json{{"experiment", name},
                                    {"quick", true},
                                    {"seed", 1},
                                    {"settings", json::object()},
                                    {"machine", "m"},
                                    {"started", "s"},
                                    {"version", "0"}}
                                       .dump() +
                                   "\n");
  EXPECT_THROW(run_experiment(name, folder.path(), {.quick = true}), Error);
  EXPECT_THROW(judge_experiment(folder.path()), Error);  // settings without what it needs
  EXPECT_THROW(judge_experiment(folder.path() / "nothing"), Error);
}

TEST(Experiment, LeavesTrialsWhoseModelIsNotGiven) {
  TemporaryFolder folder;
  const ClaimVerdict verdict = run_experiment("harmful-heads", folder.path(), {});
  EXPECT_EQ(verdict.trials, 0);
  EXPECT_GT(verdict.left, 0);
  EXPECT_EQ(verdict.outcome, ClaimOutcome::not_decided);
}

TEST(Experiment, StopsWhenProgressThrows) {
  TemporaryFolder folder;
  const auto stop = [](std::string_view, int64_t, int64_t, int64_t, int64_t) {
    throw std::runtime_error("stop");
  };
  EXPECT_THROW(
      run_experiment(experiment_kinds()[0].name, folder.path(), {.quick = true, .progress = stop}),
      std::runtime_error);
  EXPECT_EQ(judge_experiment(folder.path()).trials, 0);
}

}  // namespace
}  // namespace headwise
