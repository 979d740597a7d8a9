// headwise prune: the JSON that scripts rely on, plans, and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(PruneCommand, SaysWhatWasBeforeAndAfter) {
  const TemporaryFolder temporary;
  const std::string out = temporary.path() / "out";
  const ProgramResult result =
      run_program({"prune", golden_model_path("bert"), "--drop", "L0.H1,L1", "-o", out, "--json"});
  ASSERT_EQ(result.code, 0) << result.errors;
  const json document = json::parse(result.out);
  EXPECT_EQ(document["form"], "compact");
  EXPECT_LT(document["after"]["heads"], document["before"]["heads"]);
  EXPECT_LT(document["after"]["parameters"], document["before"]["parameters"]);
  EXPECT_LT(document["after"]["bytes"], document["before"]["bytes"]);
  EXPECT_LT(document["proof"]["max_difference"], 1e-4);
  EXPECT_EQ(document["proof"]["random_ids"], true);
  for (const char* when : {"before", "after"}) {
    EXPECT_EQ(document[when]["speed"][0]["texts"], 1);
    EXPECT_EQ(document[when]["speed"][1]["texts"], 8);
    EXPECT_GT(document[when]["speed"][1]["seconds"], 0);
  }
  const ProgramResult again =
      run_program({"prune", out, "--drop", "L0.H0", "-o", out + "2", "--ids", "5 9 3"});
  ASSERT_EQ(again.code, 0) << again.errors;
  EXPECT_THAT(again.out, HasSubstr("compact equals masked"));
  EXPECT_THAT(again.errors, HasSubstr("has the pruned model"));
}

/// A pruning that takes some seconds, most of them for measuring speed, and its folder.
class LongPruning {
 public:
  /// Returns when it has begun to write.
  LongPruning() { wait_for(part()); }

  std::vector<std::string> arguments() const {
    return {"prune", golden_model_path("bert"), "--drop", "L0.H1", "-o", out().string()};
  }
  std::filesystem::path out() const { return folder_.path() / "out"; }
  std::filesystem::path part() const { return folder_.path() / "out.headwise-part"; }
  std::set<std::string> names() const { return folder_.names(); }
  int stop(int signal) { return program_.stop(signal); }

  static void wait_for(const std::filesystem::path& path) {
    for (int i = 0; i < 120'000 && !std::filesystem::exists(path); ++i) usleep(1000);
    ASSERT_TRUE(std::filesystem::exists(path));
  }

 private:
  TemporaryFolder folder_;
  StartedProgram program_{arguments()};
};

TEST(PruneCommand, IsNotThereIfItIsInterrupted) {
  LongPruning pruning;
  EXPECT_EQ(pruning.stop(SIGINT), 130);
  EXPECT_TRUE(pruning.names().empty());
}

TEST(PruneCommand, IsDoneAsSoonAsTheFolderIsThere) {
  LongPruning pruning;
  LongPruning::wait_for(pruning.out());
  EXPECT_EQ(pruning.stop(SIGINT), 0);
  EXPECT_TRUE(std::filesystem::exists(pruning.out() / "README.md"));
}

TEST(PruneCommand, RemovesWhatAKilledOneLeft) {
  LongPruning pruning;
  pruning.stop(SIGKILL);
  EXPECT_THAT(pruning.names(), testing::ElementsAre("out.headwise-part"));
  const ProgramResult again = run_program(pruning.arguments());
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_THAT(pruning.names(), testing::ElementsAre("out"));
}

TEST(PruneCommand, WritesAFolderAlone) {
  LongPruning pruning;
  const ProgramResult second = run_program(pruning.arguments());
  EXPECT_EQ(second.code, 1);
  EXPECT_THAT(second.errors, HasSubstr("another process is writing to it"));
  EXPECT_EQ(pruning.stop(0), 0);  // waits
  EXPECT_THAT(pruning.names(), testing::ElementsAre("out"));
}

TEST(PruneCommand, DoesNotFollowALinkToItsPart) {
  const TemporaryFolder temporary;
  temporary.write("mine/file", "mine");
  std::filesystem::create_directory_symlink("mine", temporary.path() / "out.headwise-part");
  const ProgramResult result = run_program({"prune", golden_model_path("bert"), "--drop", "L0.H1",
                                            "-o", (temporary.path() / "out").string()});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(contents_of(temporary.path() / "mine" / "file"), "mine");
}

TEST(PruneCommand, ReadsAPlan) {
  const TemporaryFolder temporary;
  const std::string plan =
      temporary.write("plan.json", R"({"order": "entropy", "drop": ["L0.H1", "L1.H0"]})");
  for (const char* form : {"masked", "compact"}) {
    const std::string out = temporary.path() / form;
    const ProgramResult result = run_program(
        {"prune", golden_model_path("gpt2"), plan, "--form", form, "-o", out, "--json"});
    ASSERT_EQ(result.code, 0) << result.errors;
    const json document = json::parse(result.out);
    EXPECT_EQ(document["before"]["heads"].get<int>() - 2, document["after"]["heads"].get<int>());
    EXPECT_THAT(contents_of(out + "/README.md"), HasSubstr("in the order `entropy`"));
  }
}

TEST(PruneCommand, SaysWhatIsWrong) {
  const TemporaryFolder temporary;
  const std::string model = golden_model_path("bert"), out = temporary.path() / "out";
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"prune", model};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  EXPECT_EQ(run({"--drop", "L0.H1"}).code, 2);
  EXPECT_EQ(run({"-o", out}).code, 2);
  EXPECT_EQ(run({"--drop", "L0.H1", "-o", out, "--form", "tiny"}).code, 2);
  EXPECT_EQ(run({"--drop", "L0.H1", "-o", out, "--gate", "L0.H0=0"}).code, 2);
  EXPECT_EQ(run({"--drop", "L0.H1", "-o", out, "--loss", "mlm"}).code, 2);
  EXPECT_EQ(run({"--drop", "L0.H1", "-o", out, "--sample", "3"}).code, 2);
  const ProgramResult uniform = run({"--drop", "L0.H1", "-o", out, "--form", "uniform", "--json"});
  EXPECT_EQ(uniform.code, 1);
  EXPECT_THAT(json::parse(uniform.out)["error"]["hint"].get<std::string>(), HasSubstr("compact"));
  EXPECT_EQ(run({"--drop", "L0.H99", "-o", out}).code, 1);
  EXPECT_EQ(run({"no-such-plan.json", "-o", out}).code, 1);
  const TemporaryFolder plans;
  const std::string other =
      plans.write("other/plan.json", R"({"keep": ["L7.H1"], "drop": ["L0.H1"]})");
  EXPECT_THAT(run({other, "-o", out}).errors, HasSubstr("of another model"));
  EXPECT_THAT(run({plans.path() / "other", "-o", out}).errors, HasSubstr("of another model"));
  EXPECT_TRUE(temporary.names().empty());
}

}  // namespace
}  // namespace headwise
