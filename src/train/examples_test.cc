// Readers of training data: what becomes of files, and each thing that is refused, with its place.
#include "headwise/train/examples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "train/train_data_testing.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

Ids joined(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

class ReadCausalLm : public testing::Test {
 protected:
  Examples read(std::string_view text, Documents documents, int64_t length,
                const Tokenizer& tokenizer) const {
    return read_causal_lm({folder_.write("a.txt", text)}, documents, tokenizer,
                          model_of(tokenizer, 1024), {.length = length});
  }
  Ids ids(std::string_view text) const { return bytes(gpt2_, text); }

  const TemporaryFolder folder_;
  const Tokenizer gpt2_ = byte_tokenizer(bpe_settings("gpt2"));  // its end token is 0
};

TEST_F(ReadCausalLm, JoinsLinesAndCutsBlocks) {
  const Examples examples = read("abc\n\nde\r\n", Documents::lines, 3, gpt2_);
  ASSERT_EQ(examples.size(), 2);
  EXPECT_EQ(text_at(examples.all.source, 0), ids("abc"));
  EXPECT_EQ(text_at(examples.all.source, 1), joined({{0}, ids("de")}));
  EXPECT_EQ(examples.all.labels, joined({ids("bc"), {0}, ids("de"), {0}}));
  EXPECT_EQ(examples.tokens(1), 3);
}

TEST_F(ReadCausalLm, KeepsTheLastBlockShort) {
  const Examples examples = read("abcd", Documents::lines, 3, gpt2_);
  ASSERT_EQ(examples.size(), 2);
  EXPECT_EQ(text_at(examples.all.source, 1), ids("d"));
  EXPECT_EQ(examples.all.labels, joined({ids("bcd"), {0}}));
}

TEST_F(ReadCausalLm, TakesAFileAsOneDocument) {
  const Examples examples = read("ab\n\ncd", Documents::files, 100, gpt2_);
  ASSERT_EQ(examples.size(), 1);
  EXPECT_EQ(text_at(examples.all.source, 0), ids("ab\n\ncd\n"));
  EXPECT_EQ(examples.all.labels.back(), 0);
}

TEST_F(ReadCausalLm, PutsWhatTheTemplateBeginsWith) {
  BpeSettings settings = bpe_settings("llama");
  settings.single = "<s> $A";
  const Tokenizer llama = byte_tokenizer(settings);
  const Examples examples = read("a\nb\n", Documents::lines, 100, llama);
  EXPECT_EQ(examples.all.source.ids, joined({{1}, bytes(llama, "a"), {2, 1}, bytes(llama, "b")}));
  EXPECT_EQ(examples.all.labels.back(), 2);
}

TEST_F(ReadCausalLm, ReadsLargeFilesInPiecesThatChangeNothing) {
  std::string text;
  for (int i = 0; text.size() < 3'000'000; ++i) {
    text += std::to_string(i) + (i % 3 == 0 ? "\n" : i % 3 == 1 ? "\n\n  " : " \n");
  }
  const TemporaryFolder folder;
  BpeTrainer trainer;
  trainer.add(text.substr(0, 10000));
  BpeSettings settings = bpe_settings("gpt2");
  settings.vocabulary = 400;
  trainer.train(settings, folder.path());
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  const Examples examples = read(text, Documents::files, 1000, tokenizer);
  Ids whole = bytes(tokenizer, text.ends_with('\n') ? text : text + '\n');
  whole.push_back(0);
  EXPECT_EQ(Ids(whole.begin(), whole.end() - 1), examples.all.source.ids);
  EXPECT_EQ(Ids(whole.begin() + 1, whole.end()), examples.all.labels);
}

TEST_F(ReadCausalLm, RefusesTooLittleText) {
  const auto error = error_of([&] { read("\n\n", Documents::lines, 3, gpt2_); });
  EXPECT_EQ(error.what, "data: there is nothing to learn from");
  EXPECT_EQ(error.where, (folder_.path() / "a.txt").string());
  EXPECT_EQ(error_of([&] { read("", Documents::files, 3, gpt2_); }).expected,
            "a text of at least two tokens");
}

TEST_F(ReadCausalLm, RefusesLengthsThatTheModelCannotTake) {
  const auto error = error_of([&] { read("abc", Documents::lines, 1025, gpt2_); });
  EXPECT_EQ(error.where, "length");
  EXPECT_EQ(error.expected, "1 to 1024, the model's positions");
  const fs::path file = folder_.write("a.txt", "abc");
  EXPECT_EQ(
      error_of([&] { read_causal_lm({file}, Documents::lines, gpt2_, model_of(gpt2_)); }).what,
      "data: blocks need a length, since the model takes texts of any");
}

TEST_F(ReadCausalLm, TellsHowFarItIs) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "x\n";
  std::vector<int64_t> reports;
  read_causal_lm({folder_.write("a.txt", text)}, Documents::lines, gpt2_, model_of(gpt2_, 8),
                 {.progress = [&](int64_t lines) { reports.push_back(lines); }});
  EXPECT_THAT(reports, ElementsAre(4096, 8192));
}

class ReadLines : public testing::Test {
 protected:
  Examples classify(std::string_view text, std::vector<std::string> labels = {},
                    const ReadOptions& options = {}) {
    labels_ = std::move(labels);
    return read_classification({folder_.write("a.tsv", text)}, labels_, bert_, config_, options);
  }
  Examples compare(std::string_view text) {
    return read_similarity({folder_.write("a.tsv", text)}, bert_, config_);
  }
  /// What is wrong and where, without the folder.
  template <class Call>
  std::string refused(const Call& call) {
    const ErrorDetail error = error_of(call);
    std::string where = error.where;
    if (const size_t at = where.find(folder_.path().string()); at != where.npos) {
      where.erase(at, folder_.path().string().size() + 1);
    }
    return error.what + " | " + where + " | " + error.got + " | " + error.expected;
  }

  const TemporaryFolder folder_;
  const Tokenizer bert_ = byte_tokenizer(bpe_settings("bert"));
  ModelConfig config_ = model_of(bert_, 6);
  std::vector<std::string> labels_;
};

TEST_F(ReadLines, MaskedLmReadsATextPerLine) {
  const Examples examples =
      read_masked_lm({folder_.write("a.txt", "ab\n\n[SEP]\nc\n")}, bert_, config_);
  ASSERT_EQ(examples.size(), 2);
  EXPECT_EQ(text_at(examples.all.source, 1), joined({{1}, bytes(bert_, "c"), {2}}));
  EXPECT_THAT(examples.all.labels, IsEmpty());
  ASSERT_TRUE(examples.masking.has_value());
  EXPECT_EQ(examples.masking->mask, 3);
  EXPECT_EQ(examples.masking->drawn.size(), 256u);
  EXPECT_EQ(examples.masking->drawn.front(), 4);
}

TEST_F(ReadLines, MaskedLmNeedsAMaskToken) {
  const Tokenizer gpt2 = byte_tokenizer(bpe_settings("gpt2"));
  const fs::path file = folder_.write("a.txt", "ab\n");
  EXPECT_EQ(refused([&] { read_masked_lm({file}, gpt2, model_of(gpt2, 6)); }),
            "data: the model has no mask token | the tokenizer's special tokens |  | an id from 0 "
            "to 256");
}

TEST_F(ReadLines, ClassificationSortsTheLabelsItFinds) {
  const Examples examples = classify("ab\tpos\nc\tneg\nd\tpos\n");
  EXPECT_THAT(labels_, ElementsAre("neg", "pos"));
  EXPECT_THAT(examples.all.labels, ElementsAre(1, 0, 1));
  EXPECT_EQ(text_at(examples.all.source, 0), joined({{1}, bytes(bert_, "ab"), {2}}));
}

TEST_F(ReadLines, ClassificationKeepsTheLabelsItIsGiven) {
  EXPECT_THAT(classify("ab\tpos\n", {"pos", "neg"}).all.labels, ElementsAre(0));
  EXPECT_THAT(labels_, ElementsAre("pos", "neg"));
}

TEST_F(ReadLines, ClassificationRefusesUnknownLabels) {
  EXPECT_EQ(refused([&] {
              classify("ab\tpos\nc\tmaybe\n", {"pos", "neg"});
            }),
            "data: a label is not known | a.tsv, line 2 | \"maybe\" | one of \"neg\", \"pos\"");
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back(std::to_string(i));
  EXPECT_THAT(refused([&] { classify("a\tx\n", many); }), EndsWith("\"115\", … (1000 in all)"));
  EXPECT_EQ(refused([&] { classify("ab\t\n"); }), "data: a label is empty | a.tsv, line 1 |  | ");
}

TEST_F(ReadLines, ClassificationNeedsTwoLabels) {
  EXPECT_EQ(refused([&] { classify("ab\tpos\nc\tpos\n"); }),
            "data: there is only one label | a.tsv | \"pos\" | at least two");
}

TEST_F(ReadLines, RefusesHeaders) {
  EXPECT_EQ(refused([&] { classify("text\tlabel\nab\tpos\nc\tneg\n"); }),
            "data: the first line is a header | a.tsv, line 1 | text<TAB>label | text<TAB>label in "
            "every line");
  EXPECT_NO_THROW(classify("ab\tpos\ntext\tlabel\n"));
}

TEST_F(ReadLines, RefusesOtherColumns) {
  EXPECT_EQ(refused([&] { classify("ab\tpos\nc\n"); }),
            "data: a line has other columns | a.tsv, line 2 | 1 (\"c\") | 2: text<TAB>label");
  EXPECT_EQ(refused([&] { classify("ab\tcd\tpos\n"); }),
            "data: a line has other columns | a.tsv, line 1 | 3 (\"ab\\tcd\\tpos\") | 2: "
            "text<TAB>label");
  EXPECT_EQ(refused([&] { compare("a\tb\t1\n\n"); }),
            "data: a line has other columns | a.tsv, line 2 | 1 (\"\") | 3: "
            "text<TAB>text<TAB>score");
}

TEST_F(ReadLines, RefusesEmptyTextsAndFiles) {
  EXPECT_EQ(refused([&] { classify("a\tx\n\tpos\n"); }),
            "data: a text is empty | a.tsv, line 2 |  | some text");
  EXPECT_EQ(refused([&] { classify(""); }),
            "data: there is nothing to learn from | a.tsv |  | lines text<TAB>label");
  EXPECT_EQ(refused([&] { compare("a\t\t1\n"); }),
            "data: a text is empty | a.tsv, line 1 |  | some text");
}

TEST_F(ReadLines, CutsLongTextsOnlyWhenTold) {
  EXPECT_EQ(refused([&] { classify("abcd\tx\nabcde\tx\n"); }),
            "data: a text is too long | a.tsv, line 2 | 7 tokens (\"abcde\") | at most 6");
  EXPECT_EQ(refused([&] { classify("abcd\tx\n", {}, {.length = 5}); }),
            "data: a text is too long | a.tsv, line 1 | 6 tokens (\"abcd\") | at most 5");
  EXPECT_EQ(classify("abcde\tx\n", {"x", "y"}, {.truncate = true}).all.source.ids,
            joined({{1}, bytes(bert_, "abcd"), {2}}));
}

TEST_F(ReadLines, RefusesTokensThatTheModelDoesNotHave) {
  config_.vocabulary = 100;
  EXPECT_THAT(refused([&] { classify("a\tx\na\xC3\xBC\tx\n"); }),
              HasSubstr("data: the tokenizer gives a token that the model does not have | a.tsv, "
                        "line 2 | id 1"));
}

TEST_F(ReadLines, RefusesWhatIsNoText) {
  EXPECT_EQ(refused([&] { classify("a\tx\n\xFF\tx\n"); }),
            "text: not UTF-8 | a.tsv, line 2 | byte FF at place 1 of the line | text in UTF-8");
  EXPECT_EQ(refused([&] { classify(std::string_view("a\0\tx\n", 5)); }),
            "text: a NUL byte | a.tsv, line 1 | at place 2 of the line | text");
  EXPECT_THAT(classify("\xEF\xBB\xBF"
                       "a\tx\n",
                       {"x", "y"})
                  .all.source.ids,
              ElementsAre(1, bytes(bert_, "a")[0], 2));
}

TEST_F(ReadLines, OneHugeWordIsAText) {
  config_.max_positions = 0;
  EXPECT_EQ(classify(std::string(1'000'000, 'a') + "\tx\n", {"x", "y"}).tokens(0), 1'000'002);
}

TEST_F(ReadLines, SimilarityReadsPairs) {
  const Examples examples = compare("a\tb\t0.5\nc\td\t-1\n");
  EXPECT_EQ(examples.size(), 2);
  EXPECT_EQ(examples.all.source.sequences(), 4);
  EXPECT_EQ(examples.tokens(1), 6);
  EXPECT_THAT(examples.all.scores, ElementsAre(0.5f, -1.0f));
}

TEST_F(ReadLines, SimilarityRefusesWhatIsNoCosine) {
  for (const std::string score : {"1.5", "", "x", "0.5 ", "nan", "-1.01"}) {
    EXPECT_EQ(
        refused([&] { compare("a\tb\t" + score + "\n"); }),
        "data: a score is no cosine | a.tsv, line 1 | \"" + score + "\" | a number from -1 to 1");
  }
}

class ReadTranslation : public testing::Test {
 protected:
  Examples read(std::string_view source, std::string_view target, const ReadOptions& options = {}) {
    return read_translation(folder_.write("a.en", source), folder_.write("a.de", target), marian_,
                            config_, options);
  }

  const TemporaryFolder folder_;
  const Tokenizer marian_ = byte_tokenizer(bpe_settings("marian"));  // <pad> 0, </s> 1
  ModelConfig config_ = model_of(marian_, 6);
};

TEST_F(ReadTranslation, GivesTheDecoderItsStartAndTheLabelsTheEnd) {
  const Examples examples = read("ab\nc\n", "x\nyz\n");
  ASSERT_EQ(examples.size(), 2);
  EXPECT_EQ(text_at(examples.all.source, 0), joined({bytes(marian_, "ab"), {1}}));
  EXPECT_EQ(text_at(examples.all.target, 1), joined({{0}, bytes(marian_, "yz")}));
  EXPECT_EQ(examples.all.labels, joined({bytes(marian_, "x"), {1}, bytes(marian_, "yz"), {1}}));
  EXPECT_EQ(examples.tokens(0), 5);
}

TEST_F(ReadTranslation, RefusesFilesOfDifferentLengths) {
  const auto longer = error_of([&] { read("a\nb\nc\n", "x\n"); });
  EXPECT_EQ(longer.what, "data: parallel files have different numbers of lines");
  EXPECT_EQ(longer.where, (folder_.path() / "a.en").string());
  EXPECT_EQ(longer.got, "3 lines");
  EXPECT_EQ(longer.expected, "1, as in " + (folder_.path() / "a.de").string());
  const auto shorter = error_of([&] { read("a\n", "x\ny\nz\n"); });
  EXPECT_EQ(shorter.where, (folder_.path() / "a.de").string());
  EXPECT_EQ(shorter.got, "3 lines");
}

TEST_F(ReadTranslation, RefusesTextsOfEitherSide) {
  const auto where = [&](std::string_view source, std::string_view target) {
    return error_of([&] { read(source, target); }).where.substr(folder_.path().string().size() + 1);
  };
  EXPECT_EQ(where("a\n\n", "x\ny\n"), "a.en, line 2");
  EXPECT_EQ(where("a\nb\n", "x\n\n"), "a.de, line 2");
  EXPECT_EQ(where("a\nabcdef\n", "x\ny\n"), "a.en, line 2") << "6 tokens and the end";
  EXPECT_EQ(where("a\n", "abcdef\n"), "a.de, line 1") << "6 tokens and the start";
  EXPECT_EQ(read("abcde\n", "abcde\n").tokens(0), 12);
  EXPECT_EQ(read("abcdef\n", "abcdef\n", {.truncate = true}).tokens(0), 12);
}

TEST_F(ReadTranslation, NeedsStartAndEndTokens) {
  ModelConfig complete = config_;
  config_.decoder_start.reset();
  EXPECT_EQ(error_of([&] { read("a\n", "x\n"); }).where, "config.json: decoder_start_token_id");
  config_ = complete;
  config_.eos.clear();
  EXPECT_EQ(error_of([&] { read("a\n", "x\n"); }).where, "config.json: eos_token_id");
}

TEST(AddWords, TakesOnlyTheTextsOfColumns) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("a.tsv", "aa\tbb\tcc\naa\tbb\tcc\n");
  BpeTrainer trainer;
  add_words_of_columns({file}, 2, trainer);
  BpeSettings settings{.vocabulary = 300};
  trainer.train(settings, folder.path());
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_TRUE(tokenizer.id("aa").has_value());
  EXPECT_TRUE(tokenizer.id("bb").has_value());
  EXPECT_FALSE(tokenizer.id("cc").has_value());
}

TEST(AddWords, CanBeStopped) {
  struct Stopped {};
  const TemporaryFolder folder;
  std::string text;
  for (int line = 0; line < 5000; ++line) text += "a\tb\n";
  const fs::path file = folder.write("a.tsv", text);
  const ReadOptions options{.progress = [](int64_t) { throw Stopped(); }};
  BpeTrainer trainer;
  EXPECT_THROW(add_words({file}, Documents::lines, trainer, options), Stopped);
  EXPECT_THROW(add_words_of_columns({file}, 1, trainer, options), Stopped);
}

TEST(AddWords, CountsLineEndsOnlyOfWholeFiles) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("a.txt", "a\n\n\nb\n\n\n");
  for (const Documents documents : {Documents::lines, Documents::files}) {
    BpeTrainer trainer;
    add_words({file}, documents, trainer);
    trainer.train({.vocabulary = 300}, folder.path());
    EXPECT_EQ(Tokenizer::load(folder.path()).id("ĊĊ").has_value(), documents == Documents::files);
  }
}

}  // namespace
}  // namespace headwise
