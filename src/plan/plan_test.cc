// plan.json: written and read again, and what is refused.
#include "headwise/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "headwise/core/error.h"

namespace headwise {
namespace {

using testing::HasSubstr;

TEST(PlanJson, IsReadAsItWasWritten) {
  const Plan plan{.keep = {"L0.H1", "cross.L1.H0"},
                  .drop = {"L0.H2", "L0.H0"},
                  .order = "greedy",
                  .task = "classify",
                  .expected = {{"heads", 2}, {"loss", 0.1 + 0.2}, {"parameters", 22713216}},
                  .curves = {{"greedy", {{.removed = 0, .loss = 1. / 3}}},
                             {"random", {{.removed = 2, .loss = 0.5, .score = 0.75}}}},
                  .supported = false,
                  .reasons = {"3 of 4 heads are undecided"},
                  .held_out = HeldOut{.examples = 52,
                                      .chosen_on = 53,
                                      .source = "a half of the examples",
                                      .task = "classify",
                                      .loss = {0.25, 0.375},
                                      .change = 0.125,
                                      .interval = ConfidenceInterval{0.1, 0.15},
                                      .random = {.draws = 10, .change = 0.5, .median = 0.4},
                                      .agreement = 0.98,
                                      .score_name = "accuracy",
                                      .score = {0.9, 0.875}}};
  EXPECT_EQ(plan_from_json(to_json(plan), "plan.json"), plan);
  const auto json = nlohmann::json::parse(to_json(plan));
  EXPECT_EQ(json["schema"], 1);
  EXPECT_EQ(json["drop"][0], "L0.H2");
  EXPECT_EQ(json["curves"]["random"][0]["score"], 0.75);
  EXPECT_EQ(json["supported"], false);
  EXPECT_EQ(json["held_out"]["random"]["median"], 0.4);
  EXPECT_EQ(json["held_out"]["low"], 0.1);
  EXPECT_FALSE(json["curves"]["greedy"][0].contains("score"));
}

TEST(PlanJson, NeedsOnlyWhatGoes) {
  EXPECT_EQ(plan_from_json(R"({"drop": ["L0.H1"]})", "p"), Plan{.drop = {"L0.H1"}});
  EXPECT_EQ(plan_from_json(R"({"drop": [], "note": "mine"})", "p"), Plan());
}

std::string message(const std::string& text) {
  try {
    plan_from_json(text, "plan.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PlanJson, RefusesWhatIsNoPlan) {
  for (const char* text :
       {"", "[]", "{", "{}", R"({"drop": "L0.H1"})", R"({"drop": [3]})", R"({"drop": null})",
        R"({"drop": [], "schema": 2})", R"({"drop": [], "schema": "1"})",
        R"({"drop": [], "drop": []})", R"({"drop": [], "expected": {"loss": "low"}})",
        R"({"drop": [], "expected": 3})", R"({"drop": [], "curves": {"random": {}}})",
        R"({"drop": [], "curves": {"random": [1]}})",
        R"({"drop": [], "curves": {"random": [{"removed": -1, "loss": 1}]}})",
        R"({"drop": [], "curves": {"random": [{"removed": 1}]}})", R"({"drop": [], "order": 1})",
        R"({"drop": [], "keep": {}})"}) {
    EXPECT_THAT(message(text), HasSubstr("plan.json")) << text;
  }
  EXPECT_THAT(message(R"({"drop": ["L0.H1", "L0.H1"]})"), HasSubstr("twice"));
  EXPECT_THAT(message(R"({"drop": ["L0.H1"], "keep": ["L0.H1"]})"), HasSubstr("L0.H1"));
}

}  // namespace
}  // namespace headwise
