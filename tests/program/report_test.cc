// headwise report, as its users run it. What the page does in a browser is tested in web/tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class ReportCommand : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  /// What the page of a folder was given.
  json data_of(const std::string& study) {
    const ProgramResult result = run_program({"report", path(study), "-o", path("report.html")});
    EXPECT_EQ(result.code, 0) << result.errors;
    const std::string page = contents_of(path("report.html"));
    const std::string opening = R"(<script id="headwise-data" type="application/json">)";
    const size_t from = page.find(opening) + opening.size();
    return json::parse(page.substr(from, page.find("</script>", from) - from));
  }

  TemporaryFolder folder_;
};

constexpr const char* kVerdict =
    R"({"schema": 1, "model": {"name": "</script><!--", "architecture": "M", "sha256": ""},
        "tolerance": 0.123456789, "thresholds": {}, "heads": [], "clusters": [], "categories": [],
        "layers": [], "rankings": {}, "correlation": {}})";

TEST_F(ReportCommand, TakesWhateverTheFolderHas) {
  folder_.write("study/plan.json", R"({"drop": ["L0.H1"]})");
  folder_.write("study/samples.json",
                R"({"samples": [{"tokens": ["a", "b"],
                    "maps": {"L0.H0": {"rows": 2, "columns": 2, "data": "/wAA/w=="}}}]})");
  const json data = data_of("study");
  EXPECT_EQ(data["plan"]["drop"][0], "L0.H1");
  EXPECT_EQ(data["samples"][0]["tokens"][1], "b");
  EXPECT_FALSE(data.contains("evidence"));
  EXPECT_FALSE(data.contains("training"));
}

TEST_F(ReportCommand, SaysWhatTheProgramSaysAboutRolesAndStandings) {
  folder_.write("study/verdict.json", kVerdict);
  const json data = data_of("study");
  std::vector<std::string> names;
  for (const json& kind : data["vocabulary"]["roles"]) names.push_back(kind["role"]);
  EXPECT_THAT(names, testing::IsSupersetOf({"relation", "delimiter", "previous", "unclear"}));
  EXPECT_EQ(data["vocabulary"]["roles"][0]["letter"], "P");
  EXPECT_THAT(std::string(data["vocabulary"]["roles"][0]["color"]),
              testing::MatchesRegex("#[0-9a-f]{6}"));
  EXPECT_EQ(data["vocabulary"]["standings"].size(), 4);
  EXPECT_EQ(data["first_head"], "");
}

TEST_F(ReportCommand, NamesNoFolderOfTheMachine) {
  folder_.write("study/plan.json", R"({"drop": []})");
  folder_.write("study/summary.json",
                R"({"made": {"command": "headwise study /home/me/bert --input /home/me/a.txt"}})");
  EXPECT_EQ(data_of("study")["summary"]["made"]["command"], "headwise study bert --input a.txt");
}

TEST_F(ReportCommand, ShortensNumbersAndKeepsTextFromBecomingMarkup) {
  folder_.write("study/verdict.json", kVerdict);
  const json data = data_of("study");
  EXPECT_EQ(data["verdict"]["tolerance"], 0.12346);
  EXPECT_EQ(data["verdict"]["model"]["name"], "</script><!--");
  EXPECT_THAT(contents_of(path("report.html")), Not(HasSubstr("</script><!--")));
}

TEST_F(ReportCommand, ThinsTheLogOfATraining) {
  std::string log;
  for (int step = 1; step <= 1000; ++step) {
    log += json{{"step", step}, {"loss", step}}.dump() + "\n";
    log += json{{"step", step}, {"heads", {{"L0.H0", {{"entropy", 1}}}}}}.dump() + "\n";
  }
  folder_.write("lm/log.jsonl", log + R"({"step": 1001, "lo)");  // it is being written
  folder_.write("lm/summary.json", R"({"task": "causal_lm"})");
  const json training = data_of("lm")["training"];
  EXPECT_EQ(training["steps"].size(), 334);  // three at a time
  EXPECT_EQ(training["steps"][0], (json{{"step", 3}, {"loss", 2.0}}));
  EXPECT_EQ(training["steps"].back()["step"], 1000);
  EXPECT_EQ(training["heads"].size(), 100);
  EXPECT_EQ(training["heads"].back()["step"], 1000);
  EXPECT_EQ(training["summary"]["task"], "causal_lm");
}

TEST_F(ReportCommand, ReadsTheTrialsOfASweep) {
  folder_.write("sweep/table.json", R"({"rows": []})");
  folder_.write("sweep/heads=2/log.jsonl", "{\"step\": 5, \"evaluation\": \"validation\"}\n");
  const json training = data_of("sweep")["training"];
  EXPECT_EQ(training["trials"][0]["name"], "heads=2");
  EXPECT_EQ(training["trials"][0]["evaluations"][0]["step"], 5);
}

TEST_F(ReportCommand, SaysWhereThePageIs) {
  folder_.write("study/plan.json", R"({"drop": []})");
  const ProgramResult result = run_program({"report", path("study"), "--json"});
  ASSERT_EQ(result.code, 0) << result.errors;
  const json said = json::parse(result.out);
  EXPECT_EQ(said["file"], path("study/report.html"));
  EXPECT_EQ(said["bytes"], std::filesystem::file_size(path("study/report.html")));
  EXPECT_EQ(said["parts"], json({"plan"}));
}

TEST_F(ReportCommand, RefusesWhatItCannotShow) {
  const auto error = [&](const std::string& study) {
    const ProgramResult result = run_program({"report", path(study)});
    EXPECT_EQ(result.code, 1);
    return result.errors;
  };
  EXPECT_THAT(error("nowhere"), HasSubstr("there is no such folder"));
  std::filesystem::create_directory(path("empty"));
  EXPECT_THAT(error("empty"), HasSubstr("has no study"));
  folder_.write("broken/evidence.json", "{");
  EXPECT_THAT(error("broken"), HasSubstr("evidence.json"));
  folder_.write("other/plan.json", R"({"drop": 3})");
  EXPECT_THAT(error("other"), HasSubstr("plan.json: drop"));
  folder_.write("short/samples.json",
                R"({"samples": [{"tokens": ["a"],
                    "maps": {"L0.H0": {"rows": 9, "columns": 9, "data": "/w=="}}}]})");
  EXPECT_THAT(error("short"), HasSubstr("a map has another size"));
  folder_.write("pruned/summary.json", R"({"prune": {"before": {"heads": "all"}}})");
  EXPECT_THAT(error("pruned"), HasSubstr("summary.json: prune.before.heads"));
  folder_.write("line/log.jsonl", "{\"step\": 1}\n{}\n");
  EXPECT_THAT(error("line"), HasSubstr("log.jsonl, line 2"));
}

}  // namespace
}  // namespace headwise
