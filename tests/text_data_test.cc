// Texts as data for measuring heads, and what evidence says about them.
#include "headwise/observe/text_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

using testing::HasSubstr;

namespace fs = std::filesystem;

/// A golden model beside a tokenizer whose ids it knows.
class TextData : public testing::Test {
 protected:
  TextData() {
    fs::copy(golden_model("bert"), folder_.path() / "bert");
    const int64_t vocabulary = read_config(golden_model("bert")).vocabulary;
    std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (int64_t id = 5; id < vocabulary; ++id) words += "word" + std::to_string(id) + "\n";
    folder_.write("bert/vocab.txt", words);
  }

  TemporaryFolder folder_;
  const std::vector<std::string> texts_ = {"word7 word9 word6", "", "word8", "word10 word11"};
};

TEST_F(TextData, LeavesEmptyTextsOutAndFindsTheLoss) {
  const Model model = load((folder_.path() / "bert").string());
  const ObserveData data = text_data(model, texts_, {.name = "words"});
  EXPECT_EQ(data.corpus.name, "words");
  EXPECT_EQ(data.corpus.texts.size(), 3u);
  ASSERT_TRUE(data.evaluation);
  EXPECT_EQ(data.evaluation->task, default_task(model.config()));
  EXPECT_EQ(text_data(model, texts_, {.loss = LossTask::fidelity}).evaluation->task,
            LossTask::fidelity);
  EXPECT_THROW(text_data(model, texts_, {.loss = LossTask::classify}), Error);
}

TEST_F(TextData, NamesOrCutsATextThatIsTooLong) {
  const Model model = load((folder_.path() / "bert").string());
  std::string longest;
  for (int64_t i = 0; i < 2 * model.config().max_positions; ++i) longest += "word7 ";
  const std::vector<std::string> texts = {"word8", longest};
  EXPECT_THAT(error_of([&] { (void)text_data(model, texts, {.name = "words"}); }).where,
              HasSubstr("words, text 2"));
  const ObserveData cut = text_data(model, texts, {.truncate = true});
  EXPECT_EQ(std::ssize(cut.corpus.texts[1].ids), model.config().max_positions);
}

TEST_F(TextData, EvidenceNamesTheModelTheTextsAndTheOptions) {
  const Model model = load((folder_.path() / "bert").string());
  const ObserveOptions options{.measures = {"entropy", "ablation_zero"},
                               .probes = false,
                               .only = model.find_heads("L0"),
                               .seed = 3};
  const Evidence evidence = observe(model, texts_, options);
  EXPECT_EQ(evidence.model.name, "bert");
  EXPECT_EQ(evidence.model.sha256, model.hash());
  EXPECT_EQ(evidence.model.architecture, model.config().architecture);
  EXPECT_EQ(evidence.corpora.at("text").texts, 3);
  EXPECT_EQ(evidence.options.at("measure"), "entropy,ablation_zero");
  EXPECT_EQ(evidence.options.at("seed"), "3");
  EXPECT_THAT(evidence.options.at("only"), HasSubstr("L0.H0,L0.H1"));
  EXPECT_EQ(evidence.options.at("truncate"), "yes");
  EXPECT_TRUE(evidence.heads[0].measures.find("ablation_zero"));
  const Evidence others = observe(model, std::vector<std::string>{"word9"}, options);
  EXPECT_NE(others.corpora.at("text").sha256, evidence.corpora.at("text").sha256);
}

TEST_F(TextData, AnObservationThatWasStoppedGoesOn) {
  const Model model = load((folder_.path() / "bert").string());
  const fs::path out = folder_.path() / "evidence.json";
  ObserveOptions options{.measures = {"entropy", "qk_rank"}, .probes = false, .out = out};
  const Evidence whole = observe(model, texts_, options);
  EXPECT_EQ(read_evidence(out), whole);
  EXPECT_FALSE(fs::exists(out.string() + ".part"));
  fs::remove(out);
  struct Stopped {};
  options.saved = [](const Evidence&) { throw Stopped(); };
  EXPECT_THROW(observe(model, texts_, options), Stopped);
  EXPECT_TRUE(fs::exists(out.string() + ".part"));
  EXPECT_FALSE(fs::exists(out));
  options.saved = nullptr;
  options.resume = true;
  std::vector<std::string> parts;
  options.progress = [&](const std::string& part, int64_t, int64_t) { parts.push_back(part); };
  EXPECT_EQ(observe(model, texts_, options), whole);
  EXPECT_THAT(parts, testing::Not(testing::Contains("attention"))) << "it was finished";
  options.saved = [](const Evidence&) { throw Stopped(); };
  EXPECT_THROW(observe(model, texts_, options), Stopped);
  options.saved = nullptr;
  options.seed = 1;
  EXPECT_THAT(error_of([&] { (void)observe(model, texts_, options); }).got, HasSubstr("options"));
}

TEST_F(TextData, SentencesOfATreebankAreTexts) {
  const Model model = load((folder_.path() / "bert").string());
  const std::vector<TreeSentence> treebank = {{.id = "first", .text = texts_[0]}};
  const ObservedCorpus corpus = corpus_of(model, treebank, "en.conllu");
  EXPECT_EQ(corpus.name, "en.conllu");
  ASSERT_EQ(corpus.texts.size(), 1);
  EXPECT_EQ(corpus.texts[0].ids, model.tokenizer()->encode(texts_[0]).ids);
  std::string longest;
  for (int64_t i = 0; i < 2 * model.config().max_positions; ++i) longest += "word7 ";
  const std::vector<TreeSentence> too_long = {{.id = "s2", .text = longest}};
  EXPECT_EQ(error_of([&] { (void)corpus_of(model, too_long, ""); }).where, "s2");
}

TEST_F(TextData, PronounsAreReadByTheEndingOfTheirFile) {
  const std::vector<CoreferenceItem> items = probe_coreference(ProbeLexicon::english(), 4, 0);
  ASSERT_FALSE(items.empty());
  const std::vector<CoreferenceItem> gap = read_coreference(folder_.write("a.tsv", to_gap(items)));
  EXPECT_EQ(gap.size(), items.size());
  EXPECT_THROW((void)read_coreference(folder_.write("a.conllu", to_gap(items))), Error);
}

}  // namespace
}  // namespace headwise
