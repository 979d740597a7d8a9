// headwise probes: files that read back as what they were made of, and messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "headwise/text/probes.h"
#include "headwise/text/sample_text.h"
#include "io/io_testing.h"
#include "program/program.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(ProbesCommand, WritesWhatReadsBack) {
  const TemporaryFolder folder;
  const std::filesystem::path out = folder.path() / "a/probes";
  const ProgramResult result =
      run_program({"probes", "-o", out.string(), "--count", "50", "--seed", "3", "--json"});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_TRUE(result.errors.empty());

  const ProbeLexicon english = ProbeLexicon::english();
  const std::vector<TreeSentence> sentences = probe_sentences(english, 50, 3);
  EXPECT_EQ(read_conllu(out / "sentences.conllu"), sentences);
  EXPECT_EQ(read_gap(out / "coreference.tsv"), probe_coreference(english, 50, 3));
  EXPECT_EQ(contents_of(out / "fields.tsv"), to_tsv(probe_fields(english, 50, 3)));
  EXPECT_EQ(contents_of(out / "rare.tsv"), to_tsv(probe_rare(english, 50, 3)));
  EXPECT_EQ(contents_of(out / "text.txt"),
            std::string(sample_text()) + std::string(longer_sample_text()));

  const json summary = json::parse(result.out);
  EXPECT_EQ(summary["sentences"], 50);
  EXPECT_EQ(summary["language"], "English");
  int64_t subjects = 0;
  for (const TreeSentence& sentence : sentences) {
    for (const TreeWord& word : sentence.words) subjects += word.relation == "nsubj" ? 1 : 0;
  }
  EXPECT_EQ(summary["relations"]["nsubj"], subjects);
  for (const json& file : summary["files"]) {
    EXPECT_TRUE(std::filesystem::exists(out / file.get<std::string>())) << file;
  }
}

TEST(ProbesCommand, TakesTheLexiconThatItWrote) {
  const TemporaryFolder folder;
  const std::string first = (folder.path() / "first").string();
  const std::string second = (folder.path() / "second").string();
  ASSERT_EQ(run_program({"probes", "-o", first, "--count", "5"}).code, 0);
  const ProgramResult result = run_program(
      {"probes", "-o", second, "--count", "5", "--probe-lexicon", first + "/lexicon.json"});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_EQ(contents_of(first + "/sentences.conllu"), contents_of(second + "/sentences.conllu"));
}

TEST(ProbesCommand, ShowsExamples) {
  const TemporaryFolder folder;
  const ProgramResult result = run_program({"probes", "-o", folder.path().string()});
  ASSERT_EQ(result.code, 0) << result.errors;
  EXPECT_THAT(result.out, HasSubstr("400  sentences with their trees"));
  EXPECT_THAT(result.out, HasSubstr("the subject of"));
  EXPECT_THAT(result.out, HasSubstr(", not "));
  EXPECT_THAT(result.out, HasSubstr("is the rare word"));
}

TEST(ProbesCommand, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  EXPECT_EQ(run_program({"probes"}).code, 2);
  EXPECT_THAT(run_program({"probes"}).errors, HasSubstr("-o"));
  EXPECT_EQ(run_program({"probes", "-o", "x", "--count", "0"}).code, 2);
  const std::string lexicon = folder.write("bad.json", R"({"language": "None"})").string();
  const ProgramResult bad =
      run_program({"probes", "-o", (folder.path() / "x").string(), "--probe-lexicon", lexicon});
  EXPECT_EQ(bad.code, 1);
  EXPECT_THAT(bad.errors, HasSubstr("bad.json"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "x"));
  const ProgramResult file = run_program({"probes", "-o", lexicon});
  EXPECT_EQ(file.code, 1);
  EXPECT_THAT(file.errors, HasSubstr("the folder cannot be made"));
}

}  // namespace
}  // namespace headwise
