// headwise observe: the evidence that scripts rely on, resuming, and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "headwise/judge/verdict.h"
#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<std::string> observe(const std::string& model, std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      "observe", golden_model_path(model), "--ids", "5 9 3 7 2 11", "--ids", "8 4 6"};
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
  const json evidence = evidence_of({"observe", golden_model_path("gpt2"), "--ids", "5", "--json"});
  EXPECT_FALSE(evidence.contains("loss"));
}

TEST(ObserveVerb, OneScoredTextGivesNoInterval) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "evidence.json").string();
  const std::vector<std::vector<std::string>> ways = {{}, {"--race", "0.005"}, {"--ids", "4"}};
  for (std::vector<std::string> arguments : ways) {
    arguments.insert(arguments.begin(),
                     {"observe", golden_model_path("gpt2"), "--ids", "5 9 3 7 2 8", "--group",
                      "some=L0.H0", "--measure", "matter", "-o", out, "--json"});
    const json evidence = evidence_of(arguments);
    std::vector<json> measured = {evidence["groups"][0]["ablation_zero_half"]};
    for (const json& head : evidence["heads"]) measured.push_back(head["ablation_zero"]);
    for (const json& ablation : measured) {
      EXPECT_TRUE(ablation["value"].is_number());
      EXPECT_FALSE(ablation.contains("low"));
    }
    const ProgramResult judged = run_program({"judge", out});
    EXPECT_EQ(judged.code, 0) << judged.errors;
    EXPECT_THAT(judged.out, HasSubstr("observe more texts"));
  }
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

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(ObserveVerb, ClosesHeadsTogether) {
  const json evidence = evidence_of(
      observe("gpt2", {"--json", "--measure", "matter", "--group", "early=L0,L1.H2", "--group",
                       "L1.H0", "--ablate", "pairs,layers", "--pairs", "all"}));
  ASSERT_EQ(evidence["groups"].size(), 2 + evidence["layers"].size());
  EXPECT_EQ(evidence["groups"][0]["name"], "early");
  EXPECT_EQ(evidence["groups"][0]["heads"].back(), "L1.H2");
  for (const char* name : {"ablation_zero", "ablation_zero_half", "ablation_zero_random"}) {
    EXPECT_TRUE(evidence["groups"][0][name]["value"].is_number()) << name;
  }
  EXPECT_EQ(evidence["groups"][1]["name"], "L1.H0");
  EXPECT_EQ(evidence["pairs"]["synergy"]["all"].size(), evidence["heads"].size());
}

TEST(ObserveVerb, AddsGroupsToEvidence) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "evidence.json").string();
  const auto quick = observe("gpt2", {"-o", out, "--measure", "matter"});
  ASSERT_EQ(run_program(quick).code, 0);
  json before = json::parse(contents_of(out));
  before["heads"][0]["ablation_zero"]["value"] = 123.;  // shows that it is not measured again
  std::ofstream(out) << before;

  Verdict verdict{.model = {.name = "gpt2",
                            .architecture = before["model"]["architecture"],
                            .sha256 = before["model"]["sha256"]},
                  .categories = {{.role = "previous", .heads = {"L0.H0", "L1.H1"}}}};
  for (const json& head : before["heads"]) verdict.heads.push_back({.head = head["head"]});
  const std::string file = folder.write("verdict.json", to_json(verdict)).string();
  const ProgramResult added =
      run_program(with(quick, {"--append", "--verdict", file, "--group", "mine=L1"}));
  ASSERT_EQ(added.code, 0) << added.errors;
  json after = json::parse(contents_of(out));
  ASSERT_EQ(after["groups"].size(), 2);
  EXPECT_EQ(after["groups"][0]["name"], "mine");
  EXPECT_EQ(after["groups"][1]["name"], "role:previous");
  EXPECT_EQ(after["groups"][1]["heads"], json({"L0.H0", "L1.H1"}));
  EXPECT_TRUE(after["groups"][1]["above_random"].is_number());
  before["options"]["groups"] = "mine=L1";
  for (const char* field : {"heads", "loss", "pairs", "finished", "options"}) {
    EXPECT_EQ(after[field], before[field]) << field;
  }

  const auto refused = [&](const std::vector<std::string>& arguments) {
    const ProgramResult result = run_program(with(arguments, {"--append", "--verdict", file}));
    EXPECT_EQ(result.code, 1) << result.out;
    return result.errors;
  };
  EXPECT_THAT(refused(observe("gpt2_relu", {"-o", out})), HasSubstr("another model"));
  EXPECT_THAT(refused(observe("gpt2", {"-o", out, "--ids", "4 4"})), HasSubstr("another text"));
  EXPECT_THAT(refused(observe("gpt2", {"-o", out, "--loss", "fidelity"})),
              HasSubstr("another loss"));
  verdict.model.sha256 = "other";
  (void)folder.write("verdict.json", to_json(verdict));
  EXPECT_THAT(refused(quick), HasSubstr("the verdict is about another model"));
}

TEST(ObserveVerb, AddsGroupsToEvidenceOfATreebank) {
  const TemporaryFolder folder;
  std::filesystem::copy(golden_model_path("bert"), folder.path() / "bert");
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 5; i < 70; ++i) words += "w" + std::to_string(i) + "\n";
  (void)folder.write("bert/vocab.txt", words);
  const std::string trees = folder
                                .write("trees.conllu",
                                       "# text = w5 w6\n"
                                       "1\tw5\t_\tDET\t_\t_\t2\tdet\t_\t_\n"
                                       "2\tw6\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
                                .string();
  const std::string out = (folder.path() / "evidence.json").string();
  const std::vector<std::string> arguments = {"observe",
                                              (folder.path() / "bert").string(),
                                              "--treebank",
                                              trees,
                                              "--measure",
                                              "matter",
                                              "--no-probes",
                                              "-o",
                                              out};
  ASSERT_EQ(run_program(arguments).code, 0);
  const ProgramResult added = run_program(with(arguments, {"--append", "--group", "mine=L1"}));
  ASSERT_EQ(added.code, 0) << added.errors;
  EXPECT_EQ(json::parse(contents_of(out))["groups"][0]["name"], "mine");
  const ProgramResult both =
      run_program(with(arguments, {"--append", "--group", "mine=L1", "--text", "w5"}));
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.errors, HasSubstr("--treebank"));
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
  EXPECT_THAT(errors(observe("bert", {"--loss", "classify"})), HasSubstr("no output"));
  EXPECT_THAT(errors(observe("bert_sequence", {"--loss", "classify"})), HasSubstr("--data"));
  EXPECT_THAT(errors(observe("marian", {"--alignment", "a"})), HasSubstr("--reference"));
  EXPECT_THAT(errors(observe("bert", {"--append", "--group", "L0"})), HasSubstr("-o"));
  EXPECT_THAT(errors(observe("bert", {"--append", "-o", "x"})), HasSubstr("--verdict"));
  EXPECT_THAT(errors(observe("bert", {"--group", "a=L0"})), HasSubstr("a loss is needed"));
  EXPECT_THAT(errors(observe("bert", {"--ids", "5 6 7", "--loss", "fidelity", "--group", "a=L9"})),
              HasSubstr("L9"));
  EXPECT_THAT(errors(observe("bert", {"--ids", "5 6 7", "--loss", "fidelity", "--group", "=L0"})),
              HasSubstr("NAME=HEADS"));
  EXPECT_THAT(errors(observe("bert", {"--loss", "fidelity", "--measure", "look"})),
              HasSubstr("a loss is needed"));
  for (const char* group : {"L0=L1", "L0", "role:previous=L1"}) {
    EXPECT_THAT(errors(observe("gpt2", {"--group", group, "--ablate", "layers"})),
                HasSubstr("choose another"));
  }
}

}  // namespace
}  // namespace headwise
