// headwise compare: the JSON that scripts rely on, defaults and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

json compared(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "compare");
  arguments.push_back("--json");
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.code, 0) << result.errors;
  return json::parse(result.out);
}

TEST(CompareCommand, MatchesAModelWithItself) {
  for (const char* const name : {"bert", "marian"}) {
    for (const bool across : {false, true}) {
      std::vector<std::string> arguments = {golden_model_path(name), golden_model_path(name)};
      if (across) arguments.push_back("--across");
      const json match = compared(arguments);  // on random tokens
      EXPECT_FALSE(match["matches"].empty());
      for (const json& pair : match["matches"]) {
        EXPECT_EQ(pair["a"], pair["b"]);
        EXPECT_NEAR(pair["js"].get<double>(), 0, 1e-6);
      }
      EXPECT_NEAR(match["mean"].get<double>(), 0, 1e-6);
      EXPECT_GT(match["random_mean"].get<double>(), 1e-3);
    }
  }
}

TEST(CompareCommand, TakesTextsAsOtherCommandsDo) {
  const json match = compared({golden_model_path("bert"), golden_model_path("bert_pruned"), "--ids",
                               "5 9 3 7 2 11", "--ids", "8 4 6"});
  EXPECT_EQ(match["corpus"]["tokens"], 9);
  EXPECT_LE(match["mean"].get<double>(), match["random_mean"].get<double>());
}

TEST(CompareCommand, ShowsPeopleTheLayers) {
  const ProgramResult result = run_program(
      {"compare", golden_model_path("gpt2"), golden_model_path("gpt2"), "--ids", "5 9 3"});
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("L0.H0 - L0.H0 0.0000"));
  EXPECT_THAT(result.out, HasSubstr("by chance"));
}

TEST(CompareCommand, ComparesTwoHeadsAsObserveDoes) {
  const std::vector<std::string> texts = {"--ids", "5 9 3 7 2 11", "--ids", "8 4 6 13 5 2 9"};
  for (const char* const name : {"bert", "llama"}) {
    std::vector<std::string> observe = {"observe",    golden_model_path(name),
                                        "--json",     "--measure",
                                        "similarity", "--pairs",
                                        "all",        "--no-probes"};
    observe.insert(observe.end(), texts.begin(), texts.end());
    const ProgramResult observed = run_program(observe);
    ASSERT_EQ(observed.code, 0) << observed.errors;
    const json evidence = json::parse(observed.out);
    std::vector<std::string> names;
    for (const json& head : evidence["heads"]) names.push_back(head["head"]);
    const auto compare = [&](const std::string& a, const std::string& b) {
      std::vector<std::string> arguments = {golden_model_path(name), a, b};
      arguments.insert(arguments.end(), texts.begin(), texts.end());
      return compared(arguments);
    };
    const json same = compare("L1.H0", "L1.H2");
    EXPECT_NEAR(same["js"], evidence["pairs"]["js"]["L1"][0][2], 1e-6);
    const json& all_js = evidence["pairs"]["js"]["L1"];
    double others = 0;
    for (size_t i = 0; i < 4; ++i) {
      for (size_t j = i + 1; j < 4; ++j) {
        if (i != 0 || j != 2) others += all_js[i][j].get<double>() / 5;
      }
    }
    EXPECT_NEAR(same["others_js"], others, 1e-6);
    EXPECT_NEAR(same["output_cka"], evidence["pairs"]["output_cka"]["L1"][0][2], 1e-5);
    for (const char* const side : {"q", "k", "v", "o"}) {
      EXPECT_NEAR(same["subspace_overlap"][side],
                  evidence["pairs"]["subspace_overlap"][side]["L1"][0][2], 1e-5);
    }
    EXPECT_EQ(same["rows"], 13);
    ASSERT_EQ(same["heads"].size(), 2);
    EXPECT_TRUE(same["heads"][1]["roles"].is_array());
    const size_t second = std::ranges::find(names, "L1.H2") - names.begin();
    EXPECT_NEAR(same["heads"][1]["qk_rank"], evidence["heads"][second]["qk_rank"], 1e-6);

    const json apart = compare("L1.H2", "L0.H1");
    const size_t other = std::ranges::find(names, "L0.H1") - names.begin();
    EXPECT_NEAR(apart["js"], evidence["pairs"]["js"]["all"][second][other], 1e-6);
    const json turned = compare("L0.H1", "L1.H2");
    EXPECT_NEAR(turned["output_cka"], apart["output_cka"], 1e-9);
    EXPECT_GT(apart["output_cka"], 0);
    EXPECT_LE(apart["output_cka"], 1);
  }
}

TEST(CompareCommand, ShowsPeopleTwoHeads) {
  const ProgramResult result =
      run_program({"compare", golden_model_path("bert"), "L0.H1", "L1.H1", "--ids", "5 9 3 7"});
  EXPECT_EQ(result.code, 0) << result.errors;
  for (const char* const shown : {"L0.H1 and L1.H1", "output cka", "subspace overlap", "entropy"}) {
    EXPECT_THAT(result.out, HasSubstr(shown));
  }
}

TEST(CompareCommand, TheOnlyTwoHeadsOfALayerHaveNoOthers) {
  const std::vector<std::string> heads = {golden_model_path("gpt_neox_sequential"), "L0.H0",
                                          "L0.H1", "--ids", "5 9 3 7"};
  const json same = compared(heads);
  EXPECT_FALSE(same.contains("others_js"));
  EXPECT_TRUE(same["js"].is_number());
  std::vector<std::string> arguments = {"compare"};
  arguments.insert(arguments.end(), heads.begin(), heads.end());
  const ProgramResult shown = run_program(arguments);
  EXPECT_EQ(shown.code, 0) << shown.errors;
  EXPECT_THAT(shown.out, Not(HasSubstr("between the other heads")));
  EXPECT_THAT(shown.out, Not(HasSubstr("nan")));
  const json apart =
      compared({golden_model_path("gpt_neox_sequential"), "L0.H0", "L1.H1", "--ids", "5 9 3 7"});
  EXPECT_TRUE(apart["others_js"].is_number());
}

TEST(CompareCommand, SaysWhatIsWrongWithTwoHeads) {
  const auto refused = [](std::vector<std::string> more, int code) {
    std::vector<std::string> arguments = {"compare", "--ids", "5 9 3"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.code, code) << result.out;
    return result.errors;
  };
  const std::string bert = golden_model_path("bert"), marian = golden_model_path("marian");
  EXPECT_THAT(refused({bert, "L0", "L1.H1"}, 1), HasSubstr("not one head"));
  EXPECT_THAT(refused({bert, "L0.H1", "L0.H1"}, 1), HasSubstr("with itself"));
  EXPECT_THAT(refused({bert, "L0.H1", "L0H2"}, 1), HasSubstr("did you mean L0.H2?"));
  EXPECT_THAT(refused({marian, "enc.L0.H0", "cross.L0.H0", "--decoder-ids", "60 7"}, 1),
              HasSubstr("different kinds"));
  EXPECT_THAT(refused({bert, "L0.H1", "L0.H2", "--across"}, 2), HasSubstr("two models"));
  EXPECT_THAT(refused({bert, "L0.H1"}, 2), HasSubstr("two heads"));
  EXPECT_THAT(refused({bert, bert, "--verdict", "v.json"}, 2), HasSubstr("two heads"));
}

TEST(CompareCommand, SaysWhatIsWrong) {
  const ProgramResult other = run_program(
      {"compare", golden_model_path("bert"), golden_model_path("marian"), "--ids", "5 9 3"});
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(run_program({"compare", golden_model_path("bert")}).code, 2);
}

}  // namespace
}  // namespace headwise
