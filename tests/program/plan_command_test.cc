// headwise plan: the plan that scripts rely on, what people see of it, and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "headwise/model/model.h"
#include "io/io_testing.h"
#include "io/sha256.h"
#include "plan/plan_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// A folder with a small model that reads text, a verdict about it, and lines to measure on.
class PlanCommand : public testing::Test {
 protected:
  PlanCommand() {
    std::filesystem::copy(golden_model_path("bert"), folder_.path() / "bert");
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int i = 5; i < 70; ++i) words += "w" + std::to_string(i) + "\n";
    folder_.write("bert/vocab.txt", words);
    folder_.write("lines.txt", "w5 w9 w33\nw8 w12 w60 w5 w41\nw20 w21\n");
    Verdict verdict = random_verdict(grid_names(3, 4), 1);
    verdict.loss_task = "mlm";
    Sha256 weights;
    weights.add(contents_of(path("bert/model.safetensors")));
    verdict.model.sha256 = weights.finish();
    verdict.heads[5].roles = {{.role = "delimiter"}};
    folder_.write("verdict.json", to_json(verdict));
  }

  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  ProgramResult plan(std::vector<std::string> more, bool measured = false) const {
    std::vector<std::string> arguments = {"plan", path("verdict.json")};
    if (measured) more.insert(more.end(), {"--model", path("bert"), "--data", path("lines.txt")});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }

  json made(std::vector<std::string> more, bool measured = false) const {
    more.emplace_back("--json");
    const ProgramResult result = plan(std::move(more), measured);
    EXPECT_EQ(result.code, 0) << result.errors;
    return json::parse(result.out);
  }

  TemporaryFolder folder_;
};

TEST_F(PlanCommand, MakesPlansFromTheVerdictAlone) {
  const json half = made({"--keep", "50%"});
  EXPECT_EQ(half["schema"], 1);
  EXPECT_EQ(half["order"], "ablation");
  EXPECT_EQ(half["keep"].size(), 6);
  EXPECT_EQ(half["drop"].size(), 6);
  EXPECT_EQ(half["expected"]["heads"], 6);
  EXPECT_EQ(half["curves"], json::object());
  EXPECT_EQ(made({"--keep", "0.5"}), half);
  EXPECT_EQ(made({"--heads", "6"}), half);
  EXPECT_EQ(made({"--heads", "0", "--at-least", "0", "--order", "entropy"})["drop"].size(), 12);
  EXPECT_EQ(made({"--keep", "0.3", "--order", "random", "--seed", "3"}),
            made({"--keep", "0.3", "--order", "random", "--seed", "3"}));
}

TEST_F(PlanCommand, CutsDataOnlyIfAsked) {
  std::string line;
  for (int i = 5; i < 30; ++i) line += "w" + std::to_string(i) + " ";
  folder_.write("lines.txt", line + "\n");
  EXPECT_THAT(plan({"--keep", "50%"}, true).errors, HasSubstr("too long"));
  EXPECT_TRUE(made({"--keep", "50%", "--truncate"}, true)["expected"]["loss"].is_number());
}

TEST_F(PlanCommand, DropsWhatIsNamed) {
  const json named = made({"--drop", "role:delimiter,L2.H3"});
  EXPECT_EQ(named["order"], "list");
  EXPECT_EQ(named["drop"].back(), "L2.H3");
  EXPECT_GE(named["drop"].size(), 2);
}

TEST_F(PlanCommand, MeasuresWithAModelAndData) {
  const json plan =
      made({"--max-loss", "1%", "--curves", "ablation,redundant-first", "--draws", "2"}, true);
  EXPECT_LE(plan["expected"]["loss"].get<double>(),
            1.01 * plan["expected"]["loss_before"].get<double>());
  EXPECT_TRUE(plan["expected"]["multiply_adds"].is_number());
  EXPECT_EQ(plan["curves"].size(), 3);
  EXPECT_EQ(plan["curves"]["random"].size(), plan["curves"]["ablation"].size());
  EXPECT_EQ(plan["curves"]["ablation"][0]["loss"], plan["expected"]["loss_before"]);
  const json greedy = made({"--heads", "8", "--order", "greedy", "--step", "2"}, true);
  EXPECT_EQ(greedy["order"], "greedy");
  EXPECT_EQ(greedy["drop"].size(), 4);
}

TEST_F(PlanCommand, UniformAndSpeedNeedOnlyTheModel) {
  const json even = made({"--keep", "0.6", "--uniform", "--model", path("bert")});
  EXPECT_EQ(even["keep"].size(), 6);
  EXPECT_LT(even["expected"]["parameters"], even["expected"]["parameters_before"]);
  // No more: a machine that has other work finds nothing faster. The search has its own tests.
  const json fast = made({"--speedup", "1", "--model", path("bert")});
  EXPECT_GE(fast["expected"]["speedup"].get<double>(), 1);
}

TEST_F(PlanCommand, ShowsPeopleWhatGoes) {
  const std::string out = path("plan.json");
  const ProgramResult result = plan({"--heads", "7", "--curves", "gradient", "-o", out}, true);
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("5 of 12 heads go"));
  EXPECT_THAT(result.out,
              HasSubstr("The data do not support this plan: 12 of 12 heads are undecided"));
  EXPECT_THAT(result.out, HasSubstr("loss (mlm)"));
  EXPECT_THAT(result.out, HasSubstr("random (the control)"));
  EXPECT_EQ(json::parse(contents_of(out))["drop"].size(), 5);
}

TEST_F(PlanCommand, SaysWhatIsWrong) {
  const auto errors = [&](const std::vector<std::string>& arguments, int code) {
    const ProgramResult result = plan(arguments);
    EXPECT_EQ(result.code, code) << result.errors;
    return result.errors;
  };
  EXPECT_THAT(errors({}, 2), HasSubstr("budget"));
  EXPECT_THAT(errors({"--keep", "0.5", "--heads", "3"}, 2), HasSubstr("--keep and --heads"));
  EXPECT_THAT(errors({"--keep", "1.5"}, 2), HasSubstr("1.5"));
  EXPECT_THAT(errors({"--keep", "75"}, 2), HasSubstr("did you mean 75% or 0.75?"));
  EXPECT_THAT(errors({"--drop", "L0H1"}, 1), HasSubstr("did you mean L0.H1?"));
  EXPECT_THAT(errors({"--keep", "half"}, 2), HasSubstr("half"));
  EXPECT_THAT(errors({"--max-loss", "1%"}, 2), HasSubstr("--data"));
  EXPECT_THAT(errors({"--speedup", "2"}, 2), HasSubstr("--model"));
  EXPECT_THAT(errors({"--keep", "0.5", "--sample", "9"}, 2), HasSubstr("--data"));
  EXPECT_THAT(errors({"--keep", "0.5", "--draws", "9"}, 2), HasSubstr("--curves"));
  EXPECT_THAT(errors({"--keep", "0.5", "--step", "2"}, 2), HasSubstr("greedy"));
  EXPECT_THAT(errors({"--keep", "0.5", "--order", "greedy"}, 2), HasSubstr("--data"));
  EXPECT_THAT(errors({"--keep", "0.5", "--order", "best"}, 2), HasSubstr("best"));
  EXPECT_THAT(errors({"--keep", "0.5", "--curves", "random"}, 2), HasSubstr("--curves"));
  EXPECT_THAT(errors({"--keep", "0.5", "--uniform"}, 2), HasSubstr("--model"));
  EXPECT_THAT(errors({"--drop", "L0.H0", "--order", "random"}, 2), HasSubstr("--order"));
  EXPECT_THAT(errors({"--heads", "1"}, 1), HasSubstr("3 or more"));
  EXPECT_THAT(errors({"--drop", "L9"}, 1), HasSubstr("L9"));
  EXPECT_THAT(errors({"--keep-roles", "poet"}, 1), HasSubstr("poet"));
  EXPECT_THAT(errors({"--keep", "0.5", "--model", golden_model_path("marian")}, 1),
              HasSubstr("about another model"));
}

}  // namespace
}  // namespace headwise
