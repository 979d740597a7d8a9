// headwise sweep: trials by their values, done ones skipped, and the table.
#include "headwise/train/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;
namespace fs = std::filesystem;

class SweepTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "the cat sees the dog " + std::to_string(i % 7) + "\n";
    folder_.write("text.txt", text);
    folder_.write("base.json", base().dump());
  }

  static json base() {
    return {{"task", "causal_lm"},
            {"model",
             {{"architecture", "gpt2"},
              {"hidden_size", 16},
              {"layers", 1},
              {"heads", 2},
              {"max_position_embeddings", 16},
              {"vocab_size", 300}}},
            {"data", {{"train", "text.txt"}, {"validation", "text.txt"}, {"length", 16}}},
            {"tokens_per_batch", 128},
            {"steps", 4}};
  }

  ProgramResult sweep(const json& settings, const std::vector<std::string>& more = {}) const {
    const fs::path file = folder_.write("sweep.json", settings.dump());
    std::vector<std::string> arguments = {"sweep", file.string(), "-o",
                                          (folder_.path() / "out").string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }

  TemporaryFolder folder_;
};

TEST_F(SweepTest, SaysThatItsFolderIsAFile) {
  folder_.write("out", "mine");
  const ProgramResult result = sweep({{"base", "base.json"}, {"grid", {{"seed", {0}}}}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.errors, HasSubstr("the folder cannot be made"));
}

TEST_F(SweepTest, RunsEveryCombinationOnce) {
  const json heads = {{"base", "base.json"}, {"grid", {{"model.heads", {1, 4}}, {"seed", {0, 1}}}}};
  const ProgramResult first = sweep(heads, {"--json"});
  ASSERT_EQ(first.code, 0) << first.errors;
  EXPECT_THAT(first.errors, HasSubstr("trial 4 of 4: heads=4,seed=1"));
  const json rows = json::parse(first.out)["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["settings"]["model.heads"], 1);
  EXPECT_EQ(rows[0]["head_dim"], "16");
  EXPECT_EQ(rows[1]["head_dim"], "4");
  EXPECT_EQ(rows[0]["parameters"], rows[1]["parameters"]);
  EXPECT_EQ(rows[0]["perplexity"]["n"], 2);
  EXPECT_GT(rows[0]["perplexity"]["half_interval"].get<double>(), 0);
  EXPECT_LE(rows[1]["qk_rank"]["mean"].get<double>(), 4);
  EXPECT_GT(rows[0]["qk_rank"]["mean"].get<double>(), 4);
  EXPECT_GT(rows[0]["inference_tokens_per_second"]["mean"].get<double>(), 0);
  EXPECT_EQ(contents_of(folder_.path() / "out/table.json"), first.out);
  const json manifest =
      json::parse(contents_of(folder_.path() / "out/heads=4,seed=1/manifest.json"));
  EXPECT_EQ(manifest["values"]["seed"], 1);

  fs::remove_all(folder_.path() / "out/heads=1,seed=0");
  const ProgramResult again = sweep(heads);
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_THAT(again.errors, HasSubstr("heads=1,seed=1, done before"));
  EXPECT_THAT(again.out, HasSubstr("model.heads"));
  EXPECT_THAT(again.out, HasSubstr(" ± "));
  EXPECT_THAT(contents_of(folder_.path() / "out/table.md"),
              HasSubstr("| model.heads | head width"));
}

/// Reads the table whenever a trial begins.
class TableReader : public SweepObserver {
 public:
  explicit TableReader(fs::path table) : table_(std::move(table)) {}

  TrainObserver& begin(const Trial&, int64_t, int64_t, bool) override {
    rows.push_back(json::parse(contents_of(table_))["rows"]);
    return observer_;
  }

  std::vector<json> rows;

 private:
  fs::path table_;
  TrainObserver observer_;
};

TEST_F(SweepTest, KeepsAllRowsWhileOneTrialIsDoneAgain) {
  const json seeds = {{"base", base()}, {"grid", {{"dropout", {0, 0.5}}}}};
  ASSERT_EQ(sweep(seeds).code, 0);
  fs::remove_all(folder_.path() / "out/dropout=0");
  TableReader reader(folder_.path() / "out/table.json");
  ASSERT_TRUE(run_sweep(read_sweep(folder_.path() / "sweep.json"), folder_.path() / "out", reader));
  ASSERT_EQ(reader.rows.size(), 2u);
  EXPECT_EQ(reader.rows[1].size(), 2u);
}

TEST_F(SweepTest, TakesNoResultsOfOtherData) {
  const json settings = {{"base", base()}, {"grid", {{"dropout", {0.5}}}}};
  ASSERT_EQ(sweep(settings).code, 0);
  folder_.write("text.txt", "the dog sees the cat\n");
  const ProgramResult other = sweep(settings);
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.errors, HasSubstr("the contents of data.train"));
}

TEST_F(SweepTest, LeavesFoldersOfOthersAlone) {
  folder_.write("out/sweep.json", "{}");
  folder_.write("out/dropout=0.5/notes.txt", "mine");
  const ProgramResult result = sweep({{"base", base()}, {"grid", {{"dropout", {0.5}}}}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.errors, HasSubstr("something else in it"));
  EXPECT_FALSE(fs::exists(folder_.path() / "out/dropout=0.5/manifest.json"));
}

TEST_F(SweepTest, RefusesWhatNoTrainingWouldTake) {
  const auto message = [&](const json& settings) {
    const ProgramResult result = sweep(settings);
    EXPECT_EQ(result.code, 1);
    return result.errors;
  };
  EXPECT_THAT(message({{"base", base()}, {"grid", {{"model.heads", {2, 3}}}}}),
              HasSubstr("trial heads=3: model.heads"));
  EXPECT_THAT(message({{"base", base()}, {"grid", {{"model.heads", 2}}}}),
              HasSubstr("no list of values"));
  EXPECT_THAT(message({{"base", base()}, {"grid", {{"steps.more", {2}}}}}),
              HasSubstr("no such object"));
  EXPECT_THAT(message({{"base", base()}, {"grid", {{"seed", {0, 1, 0}}}}}),
              HasSubstr("a value is there twice"));
  folder_.write("list.json", "[1]");
  const std::string no_object = message({{"base", "list.json"}, {"grid", {{"model.heads", {2}}}}});
  EXPECT_THAT(no_object, HasSubstr("list.json"));
  EXPECT_THAT(no_object, HasSubstr("not an object"));
  EXPECT_FALSE(fs::exists(folder_.path() / "out"));
  ASSERT_EQ(sweep({{"base", base()}, {"grid", {{"dropout", {0.5}}}}}).code, 0);
  json other = base();
  other["steps"] = 5;
  EXPECT_THAT(message({{"base", other}, {"grid", {{"dropout", {0.5}}}}}),
              HasSubstr("begun with other settings"));
}

TEST(Spread, IsStudentsInterval) {
  EXPECT_FALSE(spread_of({3}).half);
  const Spread spread = spread_of({1, 2, 4});
  EXPECT_NEAR(spread.mean, 7. / 3, 1e-12);
  EXPECT_NEAR(*spread.half, 4.303 * std::sqrt(7. / 9), 1e-3);  // s² = 7/3, over 3
  EXPECT_NEAR(*spread_of(std::vector<double>({0, 1})).half, 12.706 * 0.5, 1e-3);
}

}  // namespace
}  // namespace headwise
