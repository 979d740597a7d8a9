// headwise experiment: the list, quick runs, verdicts again, messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/file.h"
#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ExperimentCommand, ListsTheClaims) {
  const ProgramResult text = run_program({"experiment"});
  EXPECT_EQ(text.code, 0) << text.errors;
  EXPECT_THAT(text.out, HasSubstr("harmful-heads"));
  const ProgramResult list = run_program({"experiment", "--json"});
  const json claims = json::parse(list.out);
  ASSERT_FALSE(claims.empty());
  for (const json& claim : claims) {
    EXPECT_FALSE(claim.at("claim").get<std::string>().empty());
    EXPECT_FALSE(claim.at("source").get<std::string>().empty());
    EXPECT_FALSE(claim.at("verdict").get<std::string>().empty());
  }
}

class QuickExperiment : public testing::TestWithParam<const char*> {};

TEST_P(QuickExperiment, RunsAndIsJudgedAgain) {
  TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string();
  const ProgramResult ran =
      run_program({"experiment", GetParam(), "--quick", "-o", out, "--json", "--quiet"});
  ASSERT_EQ(ran.code, 0) << ran.errors;
  EXPECT_EQ(ran.errors, "");
  const json verdict = json::parse(ran.out);
  EXPECT_EQ(verdict.at("experiment"), GetParam());
  EXPECT_EQ(verdict.at("quick"), true);
  EXPECT_EQ(verdict.at("run").at("left"), 0);
  EXPECT_EQ(read_file(out + "/verdict.json"), ran.out);
  const ProgramResult judged = run_program({"experiment", "--judge", out, "--json"});
  EXPECT_EQ(judged.code, 0) << judged.errors;
  EXPECT_EQ(judged.out, ran.out);
  const ProgramResult words = run_program({"experiment", "--judge", out});
  EXPECT_THAT(words.out, HasSubstr("says nothing about the claim"));
}

INSTANTIATE_TEST_SUITE_P(Three, QuickExperiment,
                         testing::Values("harmful-heads", "single-heads", "gradients-are-enough"));

TEST(ExperimentCommand, SaysWhatIsMissing) {
  EXPECT_EQ(run_program({"experiment", "harmful-heads"}).code, 2);
  EXPECT_EQ(run_program({"experiment", "--quick"}).code, 2);
  EXPECT_EQ(run_program({"experiment", "harmful-heads", "--judge", "x"}).code, 2);
  const ProgramResult unknown = run_program({"experiment", "harmful-head", "-o", "x", "--quick"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.errors, HasSubstr("harmful-heads"));
  EXPECT_EQ(run_program({"experiment", "--judge", "no-such-folder"}).code, 1);
}

}  // namespace
}  // namespace headwise
