// headwise observe: the evidence that scripts rely on, resuming, and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string_view>

#include "headwise/judge/verdict.h"
#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::vector<std::string> observe(const std::string& model, std::vector<std::string> more) {
  std::vector<std::string> arguments = {
      "observe", golden_model_path(model), "--ids", "5 9 3 7 2 11", "--ids", "8 4 6"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

json evidence_of(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_program(arguments);
  EXPECT_EQ(result.code, 0) << result.errors;
  return json::parse(result.out);
}

TEST(ObserveCommand, WritesEveryPartThatTheDataAllow) {
  const json evidence = evidence_of(observe("gpt2", {"--json"}));
  EXPECT_EQ(evidence["schema"], 1);
  EXPECT_EQ(evidence["model"]["name"], "gpt2");
  EXPECT_EQ(evidence["model"]["sha256"].get<std::string>().size(), 64);
  EXPECT_EQ(evidence["corpus"]["text"]["tokens"], 9);
  EXPECT_EQ(evidence["loss"]["task"], "lm");
  EXPECT_EQ(evidence["loss"]["tokens"], 7);
  for (const json& head : evidence["heads"]) {
    EXPECT_EQ(head["rows"], 9);
    for (const char* measure :
         {"entropy", "distance", "constancy", "qk_rank", "copying", "gradient", "induction"}) {
      EXPECT_TRUE(head[measure].is_number()) << head["head"] << " " << measure;
    }
    for (const char* field : {"value", "low", "high"}) {
      EXPECT_TRUE(head["ablation_zero"][field].is_number()) << head["head"] << " " << field;
    }
  }
  const size_t heads = evidence["pairs"]["js"]["L0"].size();
  EXPECT_EQ(evidence["pairs"]["js"]["L0"][0].size(), heads);
}

TEST(ObserveCommand, MeasuresOnlyWhatIsAskedFor) {
  const json all = evidence_of(observe("bert", {"--json", "--measure", "attention,similarity"}));
  const json some = evidence_of(
      observe("bert", {"--json", "--measure", "attention,similarity", "--only", "L1.H1,L0"}));
  EXPECT_FALSE(all.contains("loss"));
  size_t found = 0;
  for (const json& head : some["heads"]) {
    for (const json& other : all["heads"]) {
      if (head["head"] != other["head"]) continue;
      EXPECT_EQ(head["entropy"], other["entropy"]);
      ++found;
    }
  }
  EXPECT_EQ(found, some["heads"].size());
  EXPECT_EQ(some["pairs"]["js"]["L1"].size(), 1);
}

TEST(ObserveCommand, MeasuresSingleMeasures) {
  const json all = evidence_of(observe("gpt2", {"--json"}));
  const std::vector<std::pair<std::string, std::vector<std::string>>> kCases = {
      {"entropy", {"entropy"}},
      {"semantic,copying", {"copying", "semantic"}},
      {"induction", {"induction"}},
      {"gradient", {"gradient"}},
      {"ablation_mean", {"ablation_mean"}}};
  for (const auto& [list, names] : kCases) {
    const json some = evidence_of(observe("gpt2", {"--json", "--measure", list}));
    for (size_t h = 0; h < all["heads"].size(); ++h) {
      const json& head = some["heads"][h];
      std::vector<std::string> found;
      for (const auto& [name, value] : head.items()) {
        if (name != "head" && name != "rows" && name != "n" && name != "probes") {
          found.push_back(name);
        }
      }
      EXPECT_EQ(found, names) << list;
      for (const std::string& name : names) {
        const json& measured = all["heads"][h][name];
        const double value = head[name].is_object() ? head[name]["value"] : head[name];
        // Rounding depends on what else is measured in the same pass.
        EXPECT_NEAR(value, measured.is_object() ? measured["value"] : measured, 1e-5) << name;
      }
    }
    EXPECT_FALSE(some.contains("pairs") && some["pairs"].contains("js")) << list;
  }
  const json pairs = evidence_of(observe("gpt2", {"--json", "--measure", "js"}));
  EXPECT_EQ(pairs["pairs"].size(), 1);
  EXPECT_NEAR(pairs["pairs"]["js"]["L0"][0][1], all["pairs"]["js"]["L0"][0][1], 1e-6);
  EXPECT_EQ(pairs["finished"], json({"similarity"}));
}

TEST(ObserveCommand, ListsMeasuresWhereOneIsUnknown) {
  const ProgramResult result = run_program(observe("gpt2", {"--measure", "entropi"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.errors, HasSubstr("did you mean entropy?"));
  const ProgramResult help = run_program({"observe", "--help"});
  for (const std::string& text : {result.errors, help.out}) {
    for (const char* name : {"attention", "mass_previous", "linguistic", "coreference",
                             "similarity", "output_cka", "importance", "ablation_mean"}) {
      EXPECT_THAT(text, HasSubstr(name));
    }
  }
  EXPECT_EQ(run_program(observe("gpt2", {"--measure", "look"})).code, 2);
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) c == ',' ? cells.emplace_back() : cells.back() += c;
  return cells;
}

TEST(ObserveCommand, WritesATableOfTheSameNumbers) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "heads.csv").string();
  const json evidence = evidence_of(observe("gpt2", {"--json", "--csv", file}));
  const std::string table = contents_of(file);
  std::istringstream lines(table);
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> columns = cells_of(line);
  EXPECT_EQ(columns[0], "head");
  EXPECT_EQ(columns[1], "rows");
  std::set<std::string> seen;
  for (const json& head : evidence["heads"]) {
    ASSERT_TRUE(std::getline(lines, line));
    const std::vector<std::string> cells = cells_of(line);
    ASSERT_EQ(cells.size(), columns.size());
    EXPECT_EQ(cells[0], head["head"].get<std::string>());
    for (size_t c = 1; c < columns.size(); ++c) {
      const std::string& name = columns[c];
      if (cells[c].empty()) continue;
      const double value = std::stod(cells[c]);
      const auto path = [](std::string column) {
        for (char& letter : column) letter = letter == '.' ? '/' : letter;
        return json::json_pointer("/" + column);
      };
      seen.insert(name);
      if (head.contains(path(name))) {
        const json& found = head[path(name)];
        EXPECT_EQ(value, found.is_number() ? found : found["value"]) << name;
        continue;
      }
      const size_t end = name.rfind('_');
      const std::string base = name.substr(0, end), field = name.substr(end + 1);
      ASSERT_TRUE(head.contains(path(base))) << name;
      const json& found = head[path(base)];
      if (found.is_object()) {
        EXPECT_EQ(value, found[field]) << name;
      } else {
        constexpr std::string_view kProbes = "probes.";
        const bool probes = base.starts_with(kProbes);
        const json& counts = probes ? head["probes"]["n"] : head["n"];
        EXPECT_EQ(value,
                  counts.value(path(probes ? base.substr(kProbes.size()) : base), head["rows"]))
            << name;
      }
    }
  }
  EXPECT_FALSE(std::getline(lines, line));
  for (const char* name : {"entropy", "ablation_zero_low", "ablation_zero_n", "offset_share.-1",
                           "probes.induction", "qk_rank"}) {
    EXPECT_TRUE(seen.contains(name)) << name;
  }
}

TEST(ObserveCommand, OneTokenHasNothingToPredict) {
  const json evidence = evidence_of({"observe", golden_model_path("gpt2"), "--ids", "5", "--json"});
  EXPECT_FALSE(evidence.contains("loss"));
}

TEST(ObserveCommand, OneScoredTextGivesNoInterval) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "evidence.json").string();
  const std::vector<std::vector<std::string>> ways = {{}, {"--adaptive", "0.005"}, {"--ids", "4"}};
  for (std::vector<std::string> arguments : ways) {
    arguments.insert(arguments.begin(),
                     {"observe", golden_model_path("gpt2"), "--ids", "5 9 3 7 2 8", "--group",
                      "some=L0.H0", "--measure", "importance", "-o", out, "--json"});
    const json evidence = evidence_of(arguments);
    std::vector<json> measured = {evidence["groups"][0]["ablation_zero_half"]};
    for (const json& head : evidence["heads"]) measured.push_back(head["ablation_zero"]);
    for (const json& ablation : measured) {
      EXPECT_TRUE(ablation["value"].is_number());
      EXPECT_FALSE(ablation.contains("low"));
    }
    const ProgramResult judged = run_program({"judge", out});
    EXPECT_EQ(judged.code, 0) << judged.errors;
    EXPECT_THAT(judged.out, HasSubstr("observe more texts"));
  }
}

TEST(ObserveCommand, GoesOnAfterTheLastFinishedPart) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "evidence.json").string();
  ASSERT_EQ(run_program(observe("bert", {"-o", out})).code, 0);
  const json whole = json::parse(contents_of(out));
  EXPECT_FALSE(std::filesystem::exists(out + ".part"));

  json part = whole;
  part["finished"] = {"attention"};
  part["heads"][0]["entropy"] = 123.;  // shows that it is not measured again
  std::ofstream(out + ".part") << part;
  ASSERT_EQ(run_program(observe("bert", {"-o", out, "--resume"})).code, 0);
  const json resumed = json::parse(contents_of(out));
  EXPECT_EQ(resumed["heads"][0]["entropy"], 123.);
  EXPECT_EQ(resumed["heads"][0]["qk_rank"], whole["heads"][0]["qk_rank"]);
  EXPECT_EQ(resumed["finished"], whole["finished"]);

  std::ofstream(out + ".part") << part;
  const ProgramResult other = run_program(observe("bert", {"-o", out, "--resume", "--seed", "1"}));
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.errors, HasSubstr("another set of options"));
  const ProgramResult model = run_program(observe("roberta", {"-o", out, "--resume"}));
  EXPECT_EQ(model.code, 1);
  EXPECT_THAT(model.errors, HasSubstr("another model"));
}

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(ObserveCommand, AblatesHeadsTogether) {
  const json evidence = evidence_of(
      observe("gpt2", {"--json", "--measure", "importance", "--group", "early=L0,L1.H2", "--group",
                       "L1.H0", "--ablate", "pairs,layers", "--pairs", "all"}));
  ASSERT_EQ(evidence["groups"].size(), 2 + evidence["layers"].size());
  EXPECT_EQ(evidence["groups"][0]["name"], "early");
  EXPECT_EQ(evidence["groups"][0]["heads"].back(), "L1.H2");
  for (const char* name : {"ablation_zero", "ablation_zero_half", "ablation_zero_random"}) {
    EXPECT_TRUE(evidence["groups"][0][name]["value"].is_number()) << name;
  }
  EXPECT_EQ(evidence["groups"][1]["name"], "L1.H0");
  EXPECT_EQ(evidence["pairs"]["synergy"]["all"].size(), evidence["heads"].size());
}

TEST(ObserveCommand, AddsGroupsToEvidence) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "evidence.json").string();
  const auto quick = observe("gpt2", {"-o", out, "--measure", "importance"});
  ASSERT_EQ(run_program(quick).code, 0);
  json before = json::parse(contents_of(out));
  before["heads"][0]["ablation_zero"]["value"] = 123.;  // shows that it is not measured again
  std::ofstream(out) << before;

  Verdict verdict{.model = {.name = "gpt2",
                            .architecture = before["model"]["architecture"],
                            .sha256 = before["model"]["sha256"]},
                  .categories = {{.role = "previous", .heads = {"L0.H0", "L1.H1"}}}};
  for (const json& head : before["heads"]) verdict.heads.push_back({.head = head["head"]});
  const std::string file = folder.write("verdict.json", to_json(verdict)).string();
  const ProgramResult added =
      run_program(with(quick, {"--append", "--verdict", file, "--group", "mine=L1"}));
  ASSERT_EQ(added.code, 0) << added.errors;
  json after = json::parse(contents_of(out));
  ASSERT_EQ(after["groups"].size(), 2);
  EXPECT_EQ(after["groups"][0]["name"], "mine");
  EXPECT_EQ(after["groups"][1]["name"], "role:previous");
  EXPECT_EQ(after["groups"][1]["heads"], json({"L0.H0", "L1.H1"}));
  EXPECT_TRUE(after["groups"][1]["above_random"].is_number());
  before["options"]["groups"] = "mine=L1.H0,L1.H1,L1.H2,L1.H3;role:previous=L0.H0,L1.H1";
  for (const char* field : {"heads", "loss", "pairs", "finished", "options"}) {
    EXPECT_EQ(after[field], before[field]) << field;
  }

  const auto refused = [&](const std::vector<std::string>& arguments) {
    const ProgramResult result = run_program(with(arguments, {"--append", "--verdict", file}));
    EXPECT_EQ(result.code, 1) << result.out;
    return result.errors;
  };
  EXPECT_THAT(refused(observe("gpt2_relu", {"-o", out})), HasSubstr("another model"));
  EXPECT_THAT(refused(observe("gpt2", {"-o", out, "--ids", "4 4"})), HasSubstr("another text"));
  EXPECT_THAT(refused(observe("gpt2", {"-o", out, "--loss", "fidelity"})),
              HasSubstr("another loss"));
  verdict.model.sha256 = "other";
  (void)folder.write("verdict.json", to_json(verdict));
  EXPECT_THAT(refused(quick), HasSubstr("the verdict is about another model"));
}

TEST(ObserveCommand, AddsGroupsToEvidenceOfATreebank) {
  const TemporaryFolder folder;
  std::filesystem::copy(golden_model_path("bert"), folder.path() / "bert");
  std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (int i = 5; i < 70; ++i) words += "w" + std::to_string(i) + "\n";
  (void)folder.write("bert/vocab.txt", words);
  const std::string trees = folder
                                .write("trees.conllu",
                                       "# text = w5 w6\n"
                                       "1\tw5\t_\tDET\t_\t_\t2\tdet\t_\t_\n"
                                       "2\tw6\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n")
                                .string();
  const std::string out = (folder.path() / "evidence.json").string();
  const std::vector<std::string> arguments = {"observe",
                                              (folder.path() / "bert").string(),
                                              "--treebank",
                                              trees,
                                              "--measure",
                                              "importance",
                                              "--no-probes",
                                              "-o",
                                              out};
  ASSERT_EQ(run_program(arguments).code, 0);
  const ProgramResult added = run_program(with(arguments, {"--append", "--group", "mine=L1"}));
  ASSERT_EQ(added.code, 0) << added.errors;
  EXPECT_EQ(json::parse(contents_of(out))["groups"][0]["name"], "mine");
  const ProgramResult both =
      run_program(with(arguments, {"--append", "--group", "mine=L1", "--text", "w5"}));
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.errors, HasSubstr("--treebank"));
}

TEST(ObserveCommand, MakesMissingFolders) {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "a/b/evidence.json").string();
  const std::string csv = (folder.path() / "c/d.csv").string();
  ASSERT_EQ(run_program(observe("gpt2", {"-o", out, "--csv", csv})).code, 0);
  EXPECT_TRUE(std::filesystem::exists(csv));
  const std::string verdict = (folder.path() / "e/verdict.json").string();
  const ProgramResult judged = run_program({"judge", out, "-o", verdict});
  EXPECT_EQ(judged.code, 0) << judged.errors;
  EXPECT_TRUE(std::filesystem::exists(verdict));
  const ProgramResult blocked = run_program({"judge", out, "-o", out + "/verdict.json"});
  EXPECT_EQ(blocked.code, 1);
  EXPECT_THAT(blocked.errors, HasSubstr("the folder cannot be made"));
}

TEST(ObserveCommand, ShowsPeopleTheLayers) {
  const ProgramResult result =
      run_program(observe("marian", {"--decoder-ids", "60 7 9", "--decoder-ids", "60 3"}));
  EXPECT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("cross.L0"));
  EXPECT_THAT(result.out, HasSubstr("diagonal"));
}

TEST(ObserveCommand, SaysWhatIsWrong) {
  const auto errors = [](const std::vector<std::string>& arguments) {
    const ProgramResult result = run_program(arguments);
    EXPECT_NE(result.code, 0);
    return result.errors;
  };
  EXPECT_THAT(errors(observe("bert", {"--treebank", "nowhere.conllu"})),
              HasSubstr("nowhere.conllu"));
  EXPECT_THAT(errors(observe("bert", {"--only", "L9"})), HasSubstr("L9"));
  const TemporaryFolder folder;
  EXPECT_THAT(errors(observe("bert", {"--treebank", folder.write("none.conllu", "").string()})),
              AllOf(HasSubstr("none.conllu"), HasSubstr("no sentences")));
  EXPECT_THAT(errors(observe("bert", {"--resume"})), HasSubstr("-o"));
  EXPECT_THAT(errors(observe("bert", {"--loss", "classify"})), HasSubstr("no output"));
  EXPECT_THAT(errors(observe("bert_sequence", {"--loss", "classify"})), HasSubstr("--data"));
  EXPECT_THAT(errors(observe("marian", {"--alignment", "a"})), HasSubstr("--reference"));
  EXPECT_THAT(errors(observe("bert", {"--append", "--group", "L0"})), HasSubstr("-o"));
  EXPECT_THAT(errors(observe("bert", {"--append", "-o", "x"})), HasSubstr("--verdict"));
  EXPECT_THAT(errors(observe("bert", {"--group", "a=L0"})), HasSubstr("a loss is needed"));
  EXPECT_THAT(errors(observe("bert", {"--ids", "5 6 7", "--loss", "fidelity", "--group", "a=L9"})),
              HasSubstr("L9"));
  EXPECT_THAT(errors(observe("bert", {"--ids", "5 6 7", "--loss", "fidelity", "--group", "=L0"})),
              HasSubstr("NAME=HEADS"));
  EXPECT_THAT(errors(observe("bert", {"--loss", "fidelity", "--measure", "attention"})),
              HasSubstr("a loss is needed"));
  for (const char* group : {"L0=L1", "L0", "role:previous=L1"}) {
    EXPECT_THAT(errors(observe("gpt2", {"--group", group, "--ablate", "layers"})),
                HasSubstr("choose another"));
  }
}

}  // namespace
}  // namespace headwise
