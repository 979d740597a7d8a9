// Trained BPE: the merges and ids of the tokenizers package, files that load again, settings that
// cannot be.
#include "headwise/text/train_bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "golden/text_golden.h"
#include "headwise/io/json.h"
#include "headwise/text/tokenizer.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

/// A folder with the tokenizer that the texts give.
class Trained {
 public:
  Trained(const std::vector<std::string>& texts, const BpeSettings& settings) {
    BpeTrainer trainer;
    for (const std::string& text : texts) trainer.add(text);
    trainer.train(settings, folder_.path());
  }
  json file(const char* name) const { return read_json(folder_.path() / name); }
  Tokenizer tokenizer() const { return Tokenizer::load(folder_.path()); }
  std::set<std::string> names() const { return folder_.names(); }

 private:
  TemporaryFolder folder_;
};

TEST(TrainBpe, LearnsWhatTheTokenizersPackageLearns) {
  const std::vector<std::string> texts = golden::load_texts();
  for (const json& expected : read_json(golden::text_folder() / "trained_bpe.json")) {
    const auto architecture = expected["architecture"].get<std::string>();
    SCOPED_TRACE(architecture);
    BpeSettings settings = bpe_settings(architecture);
    settings.vocabulary = expected["vocabulary"];
    settings.min_frequency = expected["min_frequency"];
    const Trained trained(texts, settings);
    EXPECT_EQ(trained.file("tokenizer.json")["model"]["merges"], expected["merges"]);
    const Tokenizer tokenizer = trained.tokenizer();
    EXPECT_EQ(tokenizer.size(), expected["size"].get<int64_t>());
    const auto stride = expected["stride"].get<size_t>();
    ASSERT_GE(expected["ids"].size(), 300u);
    for (size_t i = 0; i < expected["ids"].size(); ++i) {
      const std::string& text = texts[i * stride];
      EXPECT_EQ(json(tokenizer.encode(text).ids), expected["ids"][i]) << text;
    }
  }
}

TEST(TrainBpe, ComesBackToTheText) {
  const Trained trained({"ein Haus am See, zwei Häuser am See"}, {.vocabulary = 300});
  const Tokenizer tokenizer = trained.tokenizer();
  for (const std::string text : {"Ein Häuschen, 3 Seen\n\t😀", "", " ", "\x01 x"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).ids), text);
  }
  EXPECT_EQ(tokenizer.kind(), "byte-level BPE");
}

TEST(TrainBpe, JoinsTheMostFrequentFirstAndAmongEqualsTheSmallestIds) {
  const Trained trained({"bd bd ac ac ac bd"}, {.vocabulary = 260, .min_frequency = 1});
  // Spaces are counted with the word behind them, so that "ac" and "bd" have three each.
  EXPECT_EQ(trained.file("tokenizer.json")["model"]["merges"],
            (json{"a c", "b d", "Ġ ac", "Ġ bd"}));
}

TEST(TrainBpe, CountsPairsInRunsOfOneCharacter) {
  const Trained trained({"aaaaa aaa"}, {.vocabulary = 259, .min_frequency = 1});
  EXPECT_EQ(trained.file("tokenizer.json")["model"]["merges"], (json{"a a", "aa a", "Ġ aaa"}));
}

TEST(TrainBpe, PutsSpecialTokensFirstAndAroundTexts) {
  BpeSettings settings = bpe_settings("bert");
  settings.vocabulary = 300;
  settings.longest_text = 512;
  const Trained trained({"a b a b"}, settings);
  EXPECT_THAT(trained.names(),
              ElementsAre("special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"));
  EXPECT_EQ(trained.file("tokenizer_config.json")["model_max_length"], 512);
  EXPECT_EQ(trained.file("special_tokens_map.json")["mask_token"], "[MASK]");
  const Tokenizer tokenizer = trained.tokenizer();
  EXPECT_EQ(tokenizer.id("[PAD]"), 0);
  EXPECT_EQ(tokenizer.special_tokens().mask, 3);
  const Encoding pair = tokenizer.encode("a", "b");
  const int32_t a = *tokenizer.id("a"), b = *tokenizer.id("b");
  EXPECT_THAT(pair.ids, ElementsAre(1, a, 2, b, 2));
  EXPECT_THAT(pair.type_ids, ElementsAre(0, 0, 0, 1, 1));
  EXPECT_THAT(tokenizer.encode("a[MASK]").ids, ElementsAre(1, a, 3, 2));
}

TEST(TrainBpe, NeedsNoText) {
  const Trained trained({}, {.special = {"<s>"}});
  EXPECT_EQ(trained.tokenizer().size(), 257);
}

TEST(TrainBpe, RefusesSettingsThatCannotBe) {
  const auto error = [](const BpeSettings& settings) {
    return error_of([&] { Trained({"a"}, settings); });
  };
  EXPECT_EQ(error({.vocabulary = 257, .special = {"<a>", "<b>"}}).expected,
            "258 (the bytes and the special tokens) to 10000000");
  EXPECT_EQ(error({.special = {"<a>", "<a>"}}).got, "\"<a>\"");
  EXPECT_EQ(error({.special = {""}}).got, "\"\"");
  EXPECT_EQ(error({.special = {"a"}}).what, "tokenizer: a special token is the token of a byte");
  EXPECT_EQ(error({.special = {"<a>"}, .roles = {.pad = "<b>"}}).where, "pad_token");
  EXPECT_EQ(error({.special = {"<a>"}, .single = "$A <b>"}).got, "\"<b>\"");
  EXPECT_EQ(error({.special = {"<a>"}, .single = "<a>"}).expected, "$A");
  EXPECT_EQ(error({.special = {"<a>"}, .single = "$A", .pair = "$A <a>"}).expected, "$B");
  EXPECT_THAT(error_of([] { bpe_settings("t5"); }).expected, HasSubstr("marian"));
}

}  // namespace
}  // namespace headwise
