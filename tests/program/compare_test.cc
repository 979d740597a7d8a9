// headwise compare: the JSON that scripts rely on, defaults and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json compared(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "compare");
  arguments.push_back("--json");
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.code, 0) << result.errors;
  return json::parse(result.out);
}

TEST(CompareVerb, MatchesAModelWithItself) {
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

TEST(CompareVerb, TakesTextsAsOtherVerbsDo) {
  const json match = compared({golden_model_path("bert"), golden_model_path("bert_pruned"), "--ids",
                               "5 9 3 7 2 11", "--ids", "8 4 6"});
  EXPECT_EQ(match["corpus"]["tokens"], 9);
  EXPECT_LE(match["mean"].get<double>(), match["random_mean"].get<double>());
}

TEST(CompareVerb, ShowsPeopleTheLayers) {
  const ProgramResult result = run_program(
      {"compare", golden_model_path("gpt2"), golden_model_path("gpt2"), "--ids", "5 9 3"});
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("L0.H0 - L0.H0 0.0000"));
  EXPECT_THAT(result.out, HasSubstr("by chance"));
}

TEST(CompareVerb, SaysWhatIsWrong) {
  const ProgramResult other = run_program(
      {"compare", golden_model_path("bert"), golden_model_path("marian"), "--ids", "5 9 3"});
  EXPECT_EQ(other.code, 1);
  EXPECT_EQ(run_program({"compare", golden_model_path("bert")}).code, 2);
}

}  // namespace
}  // namespace headwise
