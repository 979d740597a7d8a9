// headwise judge: the verdict that scripts rely on, the grid, words and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// Of a small model with weights at random.
class JudgeCommand : public testing::Test {
 protected:
  void SetUp() override {
    evidence_ = (folder_.path() / "evidence.json").string();
    const ProgramResult observed =
        run_program({"observe", golden_model_path("gpt2"), "--ids", "5 9 3 7 2 11", "--ids",
                     "8 4 6", "-o", evidence_, "--quiet"});
    ASSERT_EQ(observed.code, 0) << observed.errors;
  }

  ProgramResult judge(std::vector<std::string> more) const {
    more.insert(more.begin(), {"judge", evidence_});
    return run_program(more);
  }

  TemporaryFolder folder_;
  std::string evidence_;
};

TEST_F(JudgeCommand, RefusesDeepNestingOnce) {
  const std::string nested = folder_.write("nested.json", std::string(1 << 20, '[')).string();
  const ProgramResult result = run_program({"judge", nested});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.errors, HasSubstr("nested too deeply"));
}

TEST_F(JudgeCommand, WritesTheVerdict) {
  const std::string out = (folder_.path() / "verdict.json").string();
  const ProgramResult result = judge({"-o", out, "--json"});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_EQ(contents_of(out), result.out);
  const json verdict = json::parse(result.out);
  const json evidence = json::parse(contents_of(evidence_));
  EXPECT_EQ(verdict["schema"], 1);
  EXPECT_EQ(verdict["model"], evidence["model"]);
  ASSERT_EQ(verdict["heads"].size(), evidence["heads"].size());
  for (size_t h = 0; h < verdict["heads"].size(); ++h) {
    const json& head = verdict["heads"][h];
    EXPECT_EQ(head["head"], evidence["heads"][h]["head"]);
    EXPECT_FALSE(head["roles"].empty());
    EXPECT_EQ(head["importance"]["gradient"], evidence["heads"][h]["gradient"]);
    EXPECT_TRUE(head["standing"].is_string());
    EXPECT_TRUE(head["redundant_with"].is_array());
  }
  EXPECT_EQ(verdict["layers"].size(), evidence["layers"].size());
  EXPECT_TRUE(verdict["correlation"]["gradient"]["ablation_zero"].is_number());
}

TEST_F(JudgeCommand, DrawsAGridThatNeedsNoColour) {
  const ProgramResult result = judge({});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("gpt2: "));
  EXPECT_THAT(result.out, HasSubstr("L1 "));
  EXPECT_THAT(result.out, HasSubstr("how much heads matter: lm loss"));
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b[")));
  EXPECT_THAT(judge({"--color", "always"}).out, HasSubstr("\x1b["));
}

TEST_F(JudgeCommand, ExplainsHeads) {
  const ProgramResult result = judge({"--explain", "L0.H1,L1"});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_EQ(result.out.substr(0, 6), "L0.H1 ");
  EXPECT_THAT(result.out, HasSubstr("\nL1.H0 "));
  EXPECT_THAT(result.out, HasSubstr("ablating it"));
}

TEST_F(JudgeCommand, WarnsOfFewTokensAndSaysWhatWasNotMeasured) {
  const std::string screen = judge({}).out;
  EXPECT_THAT(screen, HasSubstr("warning: the texts have 9 tokens"));
  EXPECT_THAT(screen, HasSubstr("not measured: coreference, relation"));
  EXPECT_THAT(judge({"--explain", "role:relation"}).out,
              HasSubstr("not measured: headwise observe --measure linguistic"));
}

TEST_F(JudgeCommand, TakesThresholds) {
  const auto broad = [&](const char* value) {
    const ProgramResult result = judge({"--json", "--threshold", std::string("broad=") + value});
    const json verdict = json::parse(result.out);
    int64_t count = 0;
    for (const json& head : verdict["heads"]) {
      for (const json& role : head["roles"]) count += role["role"] == "broad";
    }
    return count;
  };
  EXPECT_EQ(broad("1"), 0);
  EXPECT_GT(broad("0"), 0);
}

TEST_F(JudgeCommand, SaysWhatIsWrong) {
  EXPECT_EQ(run_program({"judge"}).code, 2);
  EXPECT_EQ(judge({"--threshold", "window"}).code, 2);
  EXPECT_EQ(judge({"--tolerance", "-1"}).code, 2);
  const ProgramResult threshold = judge({"--threshold", "windw=0.5"});
  EXPECT_EQ(threshold.code, 1);
  EXPECT_THAT(threshold.errors, HasSubstr("window"));
  const ProgramResult role = judge({"--explain", "role:possitional"});
  EXPECT_EQ(role.code, 1);
  EXPECT_THAT(role.errors, HasSubstr("did you mean positional?"));
  const ProgramResult missing = run_program({"judge", "nowhere.json", "--json"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(json::parse(missing.out)["error"]["where"].get<std::string>(),
              HasSubstr("nowhere.json"));
  const std::string config = golden_model_path("gpt2") + "/config.json";
  EXPECT_EQ(run_program({"judge", config}).code, 1);
}

TEST_F(JudgeCommand, KnowsTheFilesOfOtherStages) {
  const std::string verdict = (folder_.path() / "verdict.json").string();
  ASSERT_EQ(judge({"-o", verdict}).code, 0);
  const ProgramResult again = run_program({"judge", verdict});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.errors, HasSubstr("judge: this is a verdict"));
  EXPECT_THAT(again.errors, HasSubstr("headwise plan reads it"));
  const ProgramResult early = run_program({"plan", evidence_, "--keep", "0.5"});
  EXPECT_EQ(early.code, 1);
  EXPECT_THAT(early.errors, HasSubstr("plan: this is evidence"));
  const ProgramResult prune = run_program(
      {"prune", golden_model_path("gpt2"), verdict, "-o", (folder_.path() / "pruned").string()});
  EXPECT_EQ(prune.code, 1);
  EXPECT_THAT(prune.errors, HasSubstr("prune: this is a verdict"));
}

TEST(JudgeRoles, AreListedWithWhatIsNotClaimed) {
  const ProgramResult result = run_program({"judge", "--roles"});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("positional"));
  EXPECT_THAT(result.out, HasSubstr("Not claimed"));
  EXPECT_THAT(result.out, HasSubstr("redundant_cka"));
}

}  // namespace
}  // namespace headwise
