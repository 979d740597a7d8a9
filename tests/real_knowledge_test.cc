// What heads of a trained model know of real treebanks and coreference files, which lie beside the
// checkout.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "golden/folder.h"
#include "headwise/text/treebank.h"
#include "observe/labelled_testing.h"

namespace headwise {
namespace {

const std::filesystem::path kSource = project_folder();
const auto kMiniLm = kSource / "build/models/minilm";
const auto kTreebank = kSource / "../shared/data/ud-ewt/en_ewt-ud-dev.conllu.gz";
const auto kGap = kSource / "../shared/data/gap-development.tsv";

#define SKIP_WITHOUT_FILE(path) \
  if (!std::filesystem::exists(path)) GTEST_SKIP() << (path).string() << " is not there"

TEST(RealTreebank, IsReadWholeAndWrittenAgain) {
  SKIP_WITHOUT_FILE(kTreebank);
  const std::vector<TreeSentence> sentences = read_conllu(kTreebank);
  ASSERT_EQ(sentences.size(), 2001u);
  int64_t words = 0, apart = 0;
  for (const TreeSentence& sentence : sentences) {
    words += std::ssize(sentence.words);
    for (const TreeWord& word : sentence.words) {
      apart +=
          sentence.text.substr(word.bytes.begin, word.bytes.end - word.bytes.begin) != word.form;
    }
  }
  EXPECT_EQ(words, 25147);
  EXPECT_EQ(apart, 0);
  const auto copy = std::filesystem::path(testing::TempDir()) / "headwise-ewt.conllu";
  std::ofstream(copy, std::ios::binary) << to_conllu(sentences);
  EXPECT_EQ(read_conllu(copy), sentences);
  std::filesystem::remove(copy);
}

TEST(RealGap, HasItsItems) {
  SKIP_WITHOUT_FILE(kGap);
  const std::vector<CoreferenceItem> items = read_gap(kGap);
  ASSERT_EQ(items.size(), 1799u);  // of 2,000, 201 have neither name as the antecedent
  const CoreferenceItem& first = items.front();
  EXPECT_EQ(first.text.substr(first.right.begin, first.right.end - first.right.begin),
            "Cheryl Cassidy");
  EXPECT_EQ(first.text.substr(first.wrong.begin, first.wrong.end - first.wrong.begin), "Pauline");
}

/// The first of these texts, with what is known of each.
template <class Known>
ObservedCorpus first_of(const std::vector<Known>& all, size_t count, const Tokenizer& tokenizer,
                        const Known* ObservedText::*known) {
  ObservedCorpus corpus;
  for (size_t i = 0; i < count; ++i) {
    ObservedText& text = corpus.texts.emplace_back();
    text.encoding = tokenizer.encode(all[i].text);
    text.ids = text.encoding.ids;
    text.*known = &all[i];
  }
  return corpus;
}

/// Clark et al. 2019: some heads know a relation better than any fixed offset does.
TEST(MiniLmKnows, DeterminersAndObjects) {
  SKIP_WITHOUT_FILE(kTreebank);
  SKIP_WITHOUT_FILE(kMiniLm / "config.json");
  const Model model = load(kMiniLm);
  const Tokenizer tokenizer = Tokenizer::load(kMiniLm);
  const std::vector<TreeSentence> sentences = read_conllu(kTreebank);
  const ObservedCorpus corpus = first_of(sentences, 300, tokenizer, &ObservedText::tree);
  const MetricContext context{.model = model, .tokenizer = &tokenizer, .corpus = corpus};
  const MetricResult relations = run_metric(context, relations_metric(context), 50);
  const auto expect = [&](const char* name, double at_least, double above_offset) {
    const BestHead& best = relations.evidence.best.at(name);
    RecordProperty(name, best.head + " " + std::to_string(best.measured.value) + " against " +
                             std::to_string(*best.measured.baseline));
    EXPECT_GE(best.measured.value, at_least) << name << " " << best.head;
    EXPECT_GE(best.measured.value - *best.measured.baseline, above_offset) << name;
  };
  expect("relation/det/to_head", 0.75, 0.1);
  expect("relation/obj/to_head", 0.6, 0.2);

  const MetricResult tags = run_metric(context, parts_of_speech_metric(context), 50);
  for (const Measures& head : tags.heads) {
    EXPECT_GT(head.find("upos")->value, *head.find("upos")->baseline);
  }
}

TEST(MiniLmKnows, WhomPronounsStandFor) {
  SKIP_WITHOUT_FILE(kGap);
  SKIP_WITHOUT_FILE(kMiniLm / "config.json");
  const Model model = load(kMiniLm);
  const Tokenizer tokenizer = Tokenizer::load(kMiniLm);
  const std::vector<CoreferenceItem> items = read_gap(kGap);
  const ObservedCorpus corpus = first_of(items, 200, tokenizer, &ObservedText::item);
  const MetricContext context{.model = model, .tokenizer = &tokenizer, .corpus = corpus};
  const MetricResult observed = run_metric(context, coreference_metric(context), 20);
  const BestHead& best = observed.evidence.best.at("coreference");
  RecordProperty("coreference", best.head + " " + std::to_string(best.measured.value));
  EXPECT_EQ(best.chosen.n + best.measured.n, 200);
  EXPECT_GT(best.measured.interval->low, 0.5) << best.head;
  for (const Measures& head : observed.heads) {
    EXPECT_EQ(head.find("coreference/before")->n + head.find("coreference/after")->n, 200);
  }
}

}  // namespace
}  // namespace headwise
