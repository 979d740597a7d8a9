// headwise study and the recovery of prune, as their users run them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/folder_lock.h"
#include "io/io_testing.h"
#include "program/golden_inputs.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// A small model that reads words w5 to w69, and lines of them.
class StudyCommand : public testing::Test {
 protected:
  StudyCommand() {
    std::filesystem::copy(golden_model_path("bert"), folder_.path() / "bert");
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", lines;
    for (int i = 5; i < 70; ++i) words += "w" + std::to_string(i) + "\n";
    for (int i = 5; i < 60; ++i) {
      lines += "w" + std::to_string(i) + " w" + std::to_string(i + 7) + " w9 w12\n";
    }
    folder_.write("bert/vocab.txt", words);
    folder_.write("lines.txt", lines);
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  json read(const std::string& name) const { return json::parse(contents_of(path(name))); }

  TemporaryFolder folder_;
};

TEST_F(StudyCommand, CutsDataOnlyIfAsked) {
  std::string line;
  for (int i = 5; i < 30; ++i) line += "w" + std::to_string(i) + " ";
  folder_.write("long.txt", line + "\nw5 w9 w12\n");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"observe", path("bert"), "--measure", "importance"},
        {"study", path("bert"), "--no-probes"},
        {"prune", path("bert"), "--drop", "L0.H1"}}) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), {"--data", path("long.txt"), "-o", path(command[0])});
    const ProgramResult refused = run_program(arguments);
    EXPECT_EQ(refused.code, 1) << command[0];
    EXPECT_THAT(refused.errors, HasSubstr("too long"));
    arguments.emplace_back("--truncate");
    const ProgramResult cut = run_program(arguments);
    EXPECT_EQ(cut.code, 0) << cut.errors;
  }
  EXPECT_EQ(read("observe")["options"]["truncate"], "yes");
  EXPECT_EQ(read("study/evidence.json")["loss"], read("observe")["loss"]);
  EXPECT_EQ(read("study/evidence.json")["corpus"]["text"]["name"], "built-in text");
}

TEST_F(StudyCommand, GoesTheWholeWay) {
  const ProgramResult result =
      run_program({"study", path("bert"), "--input", path("lines.txt"), "--no-probes", "--keep",
                   "0.5", "--json", "-o", path("study")});
  ASSERT_EQ(result.code, 0) << result.errors;
  const json summary = json::parse(result.out);
  EXPECT_EQ(summary, read("study/summary.json"));
  const json plan = read("study/plan.json"), verdict = read("study/verdict.json");
  const size_t heads = read("study/evidence.json")["heads"].size();
  EXPECT_EQ(summary["heads"], heads);
  EXPECT_EQ(verdict["heads"].size(), heads);
  EXPECT_EQ(summary["dropped"], plan["drop"]);
  EXPECT_EQ(plan["keep"].size(), heads / 2);
  double passes = 0;
  for (const json& stage : summary["stages"]) passes += stage["passes"].get<double>();
  EXPECT_NEAR(passes, summary["passes"]["spent"].get<double>(), 1e-6 * passes);
  EXPECT_EQ(summary["prune"]["after"]["heads"], heads / 2);
  const json held_out = summary["held_out"];
  EXPECT_EQ(held_out["examples"], 27) << "half of 55";
  EXPECT_EQ(held_out["chosen_on"], 28);
  EXPECT_EQ(held_out["random"]["draws"], 10);
  EXPECT_NEAR(held_out["change"],
              held_out["after"].get<double>() - held_out["before"].get<double>(), 1e-12);
  EXPECT_LT(held_out["low"], held_out["high"]);
  EXPECT_EQ(held_out["masks"], 4) << "as many as two passes allow";
  ASSERT_TRUE(held_out.contains("perplexity"));
  EXPECT_EQ(read("study/evidence.json")["held_out"]["positions"].size(), 4 * 27);
  EXPECT_EQ(held_out, plan["held_out"]);
  EXPECT_EQ(summary["supported"], summary["reasons"].empty());
  EXPECT_EQ(summary["supported"], plan["supported"]);
  EXPECT_EQ(summary["savings"]["heads"]["after"], heads / 2);
  EXPECT_TRUE(summary["savings"].contains("seconds"));
  EXPECT_EQ(summary["prune"]["after"]["loss"]["value"], held_out["after"]);
  EXPECT_THAT(std::string(summary["words"]["meaning"]), HasSubstr("perplexity"));
  EXPECT_LT(summary["prune"]["proof"]["max_difference"], 1e-5);
  EXPECT_FALSE(verdict["categories"].empty());
  for (const json& category : verdict["categories"]) EXPECT_TRUE(category.contains("measured"));
  const json samples = read("study/samples.json")["samples"];
  ASSERT_FALSE(samples.empty());
  for (const json& sample : samples) {
    EXPECT_EQ(sample["maps"].size(), heads);
    EXPECT_EQ(sample["maps"]["L0.H0"]["rows"], sample["tokens"].size());
    EXPECT_EQ(sample["special"], (json{0, sample["tokens"].size() - 1}));  // [CLS] and [SEP]
  }
  EXPECT_THAT(contents_of(path("study/report.html")),
              HasSubstr(std::string(samples[0]["maps"]["L0.H0"]["data"])));
  EXPECT_THAT(std::string(summary["made"]["command"]), HasSubstr("headwise study"));
  const ProgramResult run =
      run_program({"run", path("study/model"), "--text", "w5 w6", "--task", "hidden", "--json"});
  EXPECT_EQ(run.code, 0) << run.errors;

  const ProgramResult again =
      run_program({"study", path("bert"), "--input", path("lines.txt"), "-o", path("study")});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.errors, HasSubstr("new or empty"));
}

TEST_F(StudyCommand, HoldsOutScenesOfTheLongerBuiltInText) {
  const ProgramResult result = run_program(
      {"study", path("bert"), "--loss", "fidelity", "--no-probes", "--json", "-o", path("study")});
  ASSERT_EQ(result.code, 0) << result.errors;
  const json held_out = json::parse(result.out)["held_out"];
  EXPECT_EQ(held_out["examples"], 80);
  EXPECT_EQ(held_out["chosen_on"], 106);
  EXPECT_EQ(held_out["source"], "blocks of 8 sentences of the longer built-in text");
}

TEST_F(StudyCommand, ShowsPeopleTheGridThePlanAndTheModel) {
  const ProgramResult result = run_program({"study", path("bert"), "--input", path("lines.txt"),
                                            "--no-probes", "--keep", "0.75", "-o", path("study")});
  ASSERT_EQ(result.code, 0) << result.errors;
  for (const char* part : {"Roles ", "Importance ", "Plan ", "Cost ", "perplexity", "Saved ",
                           "Limit ", "It ", "L0 ", "study/model", "report.html"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_LE(std::ranges::count(result.out, '\n'), 50);
  EXPECT_THAT(result.errors, HasSubstr("passes over 55 texts"));
  const ProgramResult verbose =
      run_program({"study", path("bert"), "--input", path("lines.txt"), "--no-probes", "--verbose",
                   "--keep", "0.75", "--passes", "40", "-o", path("verbose")});
  ASSERT_EQ(verbose.code, 0) << verbose.errors;
  for (const char* part : {"Plan", "Before and after", "compact equals masked", "Cost"}) {
    EXPECT_THAT(verbose.out, HasSubstr(part));
  }
  EXPECT_EQ(read("verbose/summary.json")["passes"]["budget"], 40);
}

/// Three lines cannot support a plan: the study says so first, ends well, and writes no model.
TEST_F(StudyCommand, SaysFirstThatDataDoNotSupportAPlan) {
  folder_.write("few.txt", "w5 w9 w12 w7\nw8 w9 w30 w31\nw14 w15 w20\n");
  const std::vector<std::string> common = {"study", path("bert"), "--input", path("few.txt"),
                                           "--no-probes"};
  const auto run = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    ProgramResult result = run_program(more);
    EXPECT_EQ(result.code, 0) << result.errors;
    return result;
  };
  const std::string out = run({"-o", path("plain")}).out;
  const size_t warning = out.find("The data do not support this plan");
  ASSERT_NE(warning, std::string::npos);
  EXPECT_LT(warning, out.find("Roles "));
  EXPECT_THAT(out, HasSubstr("What would help: 20 sentences (--input) or more."));
  EXPECT_THAT(out, HasSubstr("No model was written"));
  EXPECT_FALSE(std::filesystem::exists(path("plain/model")));
  const json summary = read("plain/summary.json");
  EXPECT_EQ(summary["supported"], false);
  EXPECT_FALSE(summary["reasons"].empty());
  EXPECT_FALSE(summary.contains("prune"));
  EXPECT_EQ(summary["words"]["pays"], "Whether that pays was not measured: no model was written.");
  EXPECT_EQ(summary["held_out"]["examples"], 0);
  EXPECT_EQ(read("plain/plan.json")["supported"], false);

  const ProgramResult asked = run({"--keep", "0.75", "--json", "-o", path("asked")});
  EXPECT_THAT(asked.errors, HasSubstr("warning: The data do not support this plan"));
  EXPECT_TRUE(std::filesystem::exists(path("asked/model")));
  EXPECT_TRUE(json::parse(asked.out).contains("prune"));

  const ProgramResult planned =
      run_program({"plan", path("plain"), "--keep", "0.5", "-o", path("plan.json")});
  EXPECT_EQ(planned.code, 0) << planned.errors;
  EXPECT_THAT(planned.out, HasSubstr("The data do not support this plan"));
  EXPECT_EQ(read("plan.json")["supported"], false);
  EXPECT_EQ(read("plan.json")["order"], "ablation");
}

TEST_F(StudyCommand, RefusesBudgetsThatSayNothing) {
  const auto refused = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"study", path("bert"), "-o", path("no")});
    const ProgramResult result = run_program(more);
    EXPECT_EQ(result.code, 2);
    return result.errors;
  };
  EXPECT_THAT(refused({"--budget", "soon"}), HasSubstr("such as 90s or 3m"));
  EXPECT_THAT(refused({"--passes", "0"}), HasSubstr("below 1"));
  EXPECT_THAT(refused({"--passes", "10", "--thorough"}), HasSubstr("excludes"));
}

TEST_F(StudyCommand, LeavesNoFolderWhereItCannotBegin) {
  folder_.write("empty.txt", "");
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"study", path("bert"), "--no-probes", "-o", path("no")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_NE(result.code, 0);
    EXPECT_FALSE(std::filesystem::exists(path("no")));
    return result.errors;
  };
  EXPECT_THAT(refused({"--input", path("empty.txt")}), HasSubstr("the file has no text"));
  EXPECT_THAT(refused({"--input", path("lines.txt"), "--keep", "0"}),
              HasSubstr("so many heads cannot go"));
  EXPECT_THAT(refused({"--input", path("lines.txt"), "--form", "uniform"}),
              HasSubstr("the uniform form cannot hold this model"));
  EXPECT_THAT(refused({"--input", path("lines.txt"), "--gate", "L0=0"}), HasSubstr("--gate"));
  EXPECT_THAT(refused({"--input", path("lines.txt"), "--keep", "120%"}), HasSubstr("120%"));
  EXPECT_EQ(run_program({"study", path("none"), "-o", path("no")}).code, 1);
  EXPECT_FALSE(std::filesystem::exists(path("no")));
}

TEST_F(StudyCommand, WritesAFolderAlone) {
  std::filesystem::create_directory(path("study"));
  const FolderLock lock(path("study"));
  const ProgramResult result = run_program(
      {"study", path("bert"), "--input", path("lines.txt"), "--no-probes", "-o", path("study")});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.errors, HasSubstr("another process is writing to it"));
}

TEST_F(StudyCommand, WritesTheModelCard) {
  const ProgramResult result =
      run_program({"study", path("bert"), "--input", path("lines.txt"), "--no-probes", "--order",
                   "gradient", "--keep", "0.75", "-o", path("study")});
  ASSERT_EQ(result.code, 0) << result.errors;
  const std::string card = contents_of(path("study/model/README.md"));
  EXPECT_THAT(card, HasSubstr("in the order `gradient`"));
  EXPECT_THAT(card, HasSubstr("| mlm loss | "));
  EXPECT_THAT(card, HasSubstr("| ms for 8 x "));
}

TEST_F(StudyCommand, SaysThatFewPassesAreExceeded) {
  const auto errors = [&](const char* passes) {
    return run_program({"study", path("bert"), "--input", path("lines.txt"), "--no-probes",
                        "--passes", passes, "-o", path(std::string("out") + passes)})
        .errors;
  };
  EXPECT_THAT(errors("2"), HasSubstr("--passes 2 is less than"));
  EXPECT_THAT(errors("200"), testing::Not(HasSubstr("is less than")));
}

TEST_F(StudyCommand, SamplesAreDrawnByTheSeed) {
  const auto hash = [&](const std::string& file, const char* seed) {
    const ProgramResult result =
        run_program({"observe", path("bert"), "--input", path(file), "--measure", "attention",
                     "--no-probes", "--sample", "5", "--seed", seed, "--json"});
    EXPECT_EQ(result.code, 0) << result.errors;
    const json text = json::parse(result.out)["corpus"]["text"];
    EXPECT_EQ(text["texts"], 5);
    return text["sha256"].get<std::string>();
  };
  const std::string lines = contents_of(path("lines.txt"));
  size_t end = 0;
  for (int i = 0; i < 5; ++i) end = lines.find('\n', end) + 1;
  folder_.write("first.txt", lines.substr(0, end));
  EXPECT_EQ(hash("lines.txt", "0"), hash("lines.txt", "0"));
  EXPECT_NE(hash("lines.txt", "0"), hash("lines.txt", "1"));
  EXPECT_NE(hash("lines.txt", "0"), hash("first.txt", "0"));
}

TEST_F(StudyCommand, PruneMeasuresASample) {
  const ProgramResult result =
      run_program({"prune", path("bert"), "--drop", "L0.H1", "--data", path("lines.txt"),
                   "--sample", "7", "--json", "-o", path("out")});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_EQ(json::parse(result.out)["after"]["loss"]["examples"], 7);
  EXPECT_THAT(contents_of(path("out/README.md")), HasSubstr("over 7 examples"));
}

TEST_F(StudyCommand, RecoveryWithoutDataSaysWhatWouldShowItsGain) {
  const ProgramResult result =
      run_program({"prune", path("bert"), "--drop", "L0.H1", "--recover", path("lines.txt"),
                   "--loss", "fidelity", "-o", path("out")});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.errors, HasSubstr("--data FILE would show the loss before and after"));
}

TEST_F(StudyCommand, PrunedModelsAreRecovered) {
  const auto loss_after = [&](std::vector<std::string> more, const char* out) {
    std::vector<std::string> arguments = {"prune",  path("bert"),
                                          "--drop", "L0.H0,L1.H1,L2.H2",
                                          "--data", path("lines.txt"),
                                          "--loss", "fidelity",
                                          "--json", "-o",
                                          path(out)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.code, 0) << result.errors;
    return json::parse(result.out)["after"]["loss"]["value"].get<double>();
  };
  const std::vector<std::string> learn = {"--recover", path("lines.txt"), "--epochs",
                                          "20",        "--learning-rate", "1e-3"};
  std::vector<std::string> in_rounds = learn;
  in_rounds.insert(in_rounds.end(), {"--iterative", "3"});
  const double cut = loss_after({}, "cut");
  EXPECT_LT(loss_after(learn, "recovered"), 0.5 * cut);
  EXPECT_LT(loss_after(in_rounds, "rounds"), 0.5 * cut);
  EXPECT_FALSE(std::filesystem::exists(path("rounds.headwise-part")));
  EXPECT_THAT(contents_of(path("rounds/README.md")), HasSubstr("| L0 | 0 |"));  // of round 1 of 3
}

TEST_F(StudyCommand, GatesChooseHeads) {
  const ProgramResult result =
      run_program({"prune",     path("bert"),      "--gates",  "--keep", "50%",
                   "--recover", path("lines.txt"), "--epochs", "20",     "--gate-epochs",
                   "60",        "--learning-rate", "1e-3",     "--data", path("lines.txt"),
                   "--loss",    "fidelity",        "--json",   "-o",     path("half")});
  ASSERT_EQ(result.code, 0) << result.errors;
  const json document = json::parse(result.out), plan = read("half.plan.json");
  EXPECT_THAT(contents_of(path("half/README.md")), HasSubstr("in the order `gates`"));
  const size_t heads = document["before"]["heads"];
  EXPECT_EQ(plan["order"], "gates");
  EXPECT_LE(document["after"]["heads"], heads / 2);
  EXPECT_EQ(plan["keep"].size(), document["after"]["heads"]);
  EXPECT_EQ(plan["keep"].size() + plan["drop"].size(), heads);
  EXPECT_EQ(document["gates"]["values"].size(), heads);
  EXPECT_EQ(document["gates"]["plan"], path("half.plan.json"));
  EXPECT_LE(document["after"]["loss"]["value"], document["cut"]["value"]);
  EXPECT_LT(document["proof"]["max_difference"], 1e-5);

  // The plan is one like any other.
  const ProgramResult by_plan =
      run_program({"prune", path("bert"), path("half.plan.json"), "-o", path("by_plan")});
  EXPECT_EQ(by_plan.code, 0) << by_plan.errors;
  const ProgramResult few =
      run_program({"prune", path("bert"), "--gates", "--heads", "1", "--recover", path("lines.txt"),
                   "--loss", "fidelity", "-o", path("few")});
  EXPECT_EQ(few.code, 1);
  EXPECT_THAT(few.errors, HasSubstr("so many heads cannot go"));
  EXPECT_FALSE(std::filesystem::exists(path("few")));
  EXPECT_FALSE(std::filesystem::exists(path("few.plan.json")));
}

TEST_F(StudyCommand, RefusesGatesThatCannotBe) {
  const auto refused = [&](std::vector<std::string> more, const char* why) {
    std::vector<std::string> arguments = {"prune", path("bert"), "-o", path("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.errors, HasSubstr(why));
  };
  const std::string lines = path("lines.txt");
  refused({"--gates", "--keep", "0.5"}, "--recover");
  refused({"--gates", "--recover", lines}, "--heads 40");
  refused({"--gates", "--recover", lines, "--keep", "0.5", "--heads", "3"}, "--heads 40");
  refused({"--gates", "--recover", lines, "--keep", "0.5", "--drop", "L0"}, "instead of a plan");
  refused({"--gates", "--recover", lines, "--keep", "0.5", "--iterative", "2"}, "--iterative");
  refused({"--drop", "L0.H0", "--keep", "0.5"}, "--gates");
  refused({"--drop", "L0.H0", "--recover", lines, "--gate-weights", "frozen"}, "--gates");
}

TEST_F(StudyCommand, RefusesRecoveriesThatCannotBe) {
  const auto refused = [&](std::vector<std::string> more, const char* why) {
    std::vector<std::string> arguments = {"prune", path("bert"), "--drop",
                                          "L0.H0", "-o",         path("out")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.code, 2);
    EXPECT_THAT(result.errors, HasSubstr(why));
  };
  refused({"--form", "masked", "--recover", path("lines.txt")}, "masked");
  refused({"--iterative", "2"}, "--recover");
  refused({"--loss", "lm"}, "--data");
  EXPECT_EQ(run_program({"study", path("bert")}).code, 2);
}

}  // namespace
}  // namespace headwise
