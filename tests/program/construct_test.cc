// headwise construct: what it prints, and that every command takes the model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ConstructCommand, WritesAModelThatRuns) {
  const TemporaryFolder folder;
  const std::string model = (folder.path() / "sort").string();
  const ProgramResult made = run_program({"construct", "sort", "-o", model, "--length", "6"});
  ASSERT_EQ(made.code, 0) << made.errors;
  EXPECT_THAT(made.out, HasSubstr("L0.H1   smaller = selector_width(select(tokens, tokens, <))"));
  EXPECT_THAT(made.out, HasSubstr("Verified: 1,000 texts"));
  const ProgramResult run = run_program({"run", model, "--text", "badcab", "--json"});
  ASSERT_EQ(run.code, 0) << run.errors;
  const json results = json::parse(run.out)["results"];
  std::string answer;
  for (const json& label : results[0]["labels"]) {
    answer += label.get<std::string>();
  }
  EXPECT_EQ(answer, "[BOS]aabbcd");
  // Without the head that looks up the tokens, the answer is that of nothing selected.
  const ProgramResult gated =
      run_program({"run", model, "--text", "badcab", "--gate", "L2.H0=0", "--against", "original"});
  ASSERT_EQ(gated.code, 0) << gated.errors;
}

TEST(ConstructCommand, CountsHeadsAndLayers) {
  const TemporaryFolder folder;
  const std::string file =
      folder
          .write("pairs.rasp",
                 "alphabet: a b\nlength: 6\n"
                 "one = aggregate(select(indices, indices - 1, ==), tokens, \"-\")\n"
                 "two = aggregate(select(indices, indices - 2, ==), tokens, \"-\")\n"
                 "return one == two\n")
          .string();
  for (const int heads : {1, 2}) {
    const ProgramResult result =
        run_program({"construct", file, "--max-heads", std::to_string(heads), "--json"});
    ASSERT_EQ(result.code, 0) << result.errors;
    const json made = json::parse(result.out);
    EXPECT_EQ(made["program"], "pairs");
    EXPECT_EQ(made["layers"], heads == 1 ? 2 : 1);
    EXPECT_EQ(made["heads"], 2);
    EXPECT_EQ(made["most_heads"], heads);
    EXPECT_TRUE(made["folder"].is_null());
  }
}

TEST(ConstructCommand, MakesModelsForEveryCommand) {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const std::string model = path("model");
  ASSERT_EQ(run_program({"construct", "most-frequent", "-o", model, "--length", "6"}).code, 0);
  const std::string texts = folder.write("texts.txt", "abacab\nfeed\ncafe\nbad\nabba\n").string();
  const std::vector<std::vector<std::string>> commands = {
      {"inspect", model},
      {"attend", model, "--text", "abba", "--heads", "L0.H0"},
      {"observe", model, "--input", texts, "--no-probes", "-o", path("evidence.json")},
      {"judge", path("evidence.json"), "-o", path("verdict.json")},
      {"plan", path("verdict.json"), "--model", model, "--heads", "5", "-o", path("plan.json")},
      {"prune", model, path("plan.json"), "-o", path("pruned")},
      {"run", path("pruned"), "--text", "abba"},
      {"compare", model, path("pruned"), "--input", texts},
      {"export", model, "--onnx", path("model.onnx")},
  };
  for (const auto& command : commands) {
    const ProgramResult result = run_program(command);
    EXPECT_EQ(result.code, 0) << command.front() << ": " << result.errors;
  }
}

TEST(ConstructCommand, NamesWhatIsWrong) {
  const ProgramResult unknown = run_program({"construct", "histgram"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.errors, HasSubstr("did you mean histogram?"));
  EXPECT_EQ(run_program({"construct"}).code, 2);
  EXPECT_EQ(run_program({"construct", "sort", "--max-heads", "0"}).code, 2);
  EXPECT_THAT(run_program({"construct", "--help"}).out, HasSubstr("most-frequent"));
}

}  // namespace
}  // namespace headwise
