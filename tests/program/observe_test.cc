// headwise observe: the evidence that scripts rely on, resuming, and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<std::string> observe(const std::string& model, std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      "observe", golden_model(model), "--ids", "5 9 3 7 2 11", "--ids", "8 4 6"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

json evidence_of(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.code, 0) << result.errors;
  return json::parse(result.out);
}

TEST(ObserveVerb, WritesEveryPartThatTheDataAllow) {
  const json evidence = evidence_of(observe("gpt2", {"--json"}));
  EXPECT_EQ(evidence["schema"], 1);
  EXPECT_EQ(evidence["model"]["name"], "gpt2");
  EXPECT_EQ(evidence["model"]["sha256"].get<std::string>().size(), 64);
  EXPECT_EQ(evidence["corpus"]["text"]["tokens"], 9);
  EXPECT_EQ(evidence["loss"]["task"], "lm");
  EXPECT_EQ(evidence["loss"]["tokens"], 7);
  for (const json& head : evidence["heads"]) {
    EXPECT_EQ(head["rows"], 9);
    for (const char* measure :
         {"entropy", "distance", "constancy", "qk_rank", "copying", "gradient", "induction"}) {
      EXPECT_TRUE(head[measure].is_number()) << head["head"] << " " << measure;
    }
    for (const char* field : {"value", "low", "high"}) {
      EXPECT_TRUE(head["ablation_zero"][field].is_number()) << head["head"] << " " << field;
    }
  }
  const size_t heads = evidence["pairs"]["js"]["L0"].size();
  EXPECT_EQ(evidence["pairs"]["js"]["L0"][0].size(), heads);
}

TEST(ObserveVerb, MeasuresOnlyWhatIsAskedFor) {
  const json all = evidence_of(observe("bert", {"--json", "--measure", "look,relate"}));
  const json some =
      evidence_of(observe("bert", {"--json", "--measure", "look,relate", "--only", "L1.H1,L0"}));
  EXPECT_FALSE(all.contains("loss"));
  size_t found = 0;
  for (const json& head : some["heads"]) {
    for (const json& other : all["heads"]) {
      if (head["head"] != other["head"]) continue;
      EXPECT_EQ(head["entropy"], other["entropy"]);
      ++found;
    }
  }
  EXPECT_EQ(found, some["heads"].size());
  EXPECT_EQ(some["pairs"]["js"]["L1"].size(), 1);
}

TEST(ObserveVerb, OneTokenHasNothingToPredict) {
  const json evidence = evidence_of({"observe", golden_model("gpt2"), "--ids", "5", "--json"});
  EXPECT_FALSE(evidence.contains("loss"));
}

TEST(ObserveVerb, GoesOnAfterTheLastFinishedPart) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "evidence.json").string();
  ASSERT_EQ(run_program(observe("bert", {"-o", out})).code, 0);
  const json whole = json::parse(contents_of(out));
  EXPECT_FALSE(std::filesystem::exists(out + ".part"));

  json part = whole;
  part["finished"] = {"look"};
  part["heads"][0]["entropy"] = 123.;  // shows that it is not measured again
  std::ofstream(out + ".part") << part;
  ASSERT_EQ(run_program(observe("bert", {"-o", out, "--resume"})).code, 0);
  const json resumed = json::parse(contents_of(out));
  EXPECT_EQ(resumed["heads"][0]["entropy"], 123.);
  EXPECT_EQ(resumed["heads"][0]["qk_rank"], whole["heads"][0]["qk_rank"]);
  EXPECT_EQ(resumed["finished"], whole["finished"]);

  std::ofstream(out + ".part") << part;
  const ProgramResult other = run_program(observe("bert", {"-o", out, "--resume", "--seed", "1"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.errors, HasSubstr("another set of options"));
  const ProgramResult model = run_program(observe("roberta", {"-o", out, "--resume"}));
  EXPECT_EQ(model.code, 1);
  EXPECT_THAT(model.errors, HasSubstr("another model"));
}

TEST(ObserveVerb, ShowsPeopleTheLayers) {
  const ProgramResult result =
      run_program(observe("marian", {"--decoder-ids", "60 7 9", "--decoder-ids", "60 3"}));
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("cross.L0"));
  EXPECT_THAT(result.out, HasSubstr("diagonal"));
}

TEST(ObserveVerb, SaysWhatIsWrong) {
  const auto errors = [](const std::vector<std::string>& arguments) {
    const ProgramResult result = run_program(arguments);
    EXPECT_NE(result.code, 0);
    return result.errors;
  };
  EXPECT_THAT(errors(observe("bert", {"--treebank", "nowhere.conllu"})),
              HasSubstr("nowhere.conllu"));
  EXPECT_THAT(errors(observe("bert", {"--only", "L9"})), HasSubstr("L9"));
  EXPECT_THAT(errors(observe("bert", {"--resume"})), HasSubstr("-o"));
  EXPECT_THAT(errors(observe("bert", {"--loss", "classify"})), HasSubstr("--data"));
}

}  // namespace
}  // namespace headwise
