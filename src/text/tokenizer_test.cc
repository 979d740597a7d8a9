// Tokenizers from small files written here: what is refused and how, offsets, truncation, padding.
#include "headwise/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "headwise/core/error.h"
#include "headwise/text/tokenizer_kind.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class TokenizerFile : public testing::Test {
 protected:
  Tokenizer load(const Json& json) const {
    folder_.write("tokenizer.json", json.dump());
    return Tokenizer::load(folder_.path());
  }
  std::string error(const std::string& text) const {
    folder_.write("tokenizer.json", text);
    try {
      Tokenizer::load(folder_.path());
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  std::string error_of(const Json& json) const { return error(json.dump()); }

  TemporaryFolder folder_;
};

Json word_piece() {
  return Json::parse(R"({
    "version": "1.0",
    "added_tokens": [],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
                   "strip_accents": null, "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100,
              "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "[PAD]": 3, "un": 4, "##do": 5,
                        "cafe": 6, "!": 7}}})");
}

TEST_F(TokenizerFile, PlacesTokensInTheTextAsItWas) {
  const Tokenizer tokenizer = load(word_piece());
  const Encoding encoding = tokenizer.encode("Undo CAFÉ!");
  EXPECT_THAT(encoding.ids, ElementsAre(1, 4, 5, 6, 7, 2));
  EXPECT_THAT(encoding.words, ElementsAre(-1, 0, 0, 1, 2, -1));
  EXPECT_EQ(encoding.code_points[3], (TokenSpan{5, 9}));
  EXPECT_EQ(encoding.bytes[3], (TokenSpan{5, 10}));
  EXPECT_EQ(tokenizer.decode(encoding.ids, false), "[CLS] undo cafe! [SEP]");
}

TEST_F(TokenizerFile, HearsTheConfigWhereTheClassOfTransformersDoes) {
  const auto ids = [&](const Json& config, const char* text) {
    folder_.write("tokenizer_config.json", config.dump());
    return Tokenizer::load(folder_.path()).encode(text, {.add_special = false}).ids;
  };
  folder_.write("tokenizer.json", word_piece().dump());
  EXPECT_THAT(ids({{"do_lower_case", false}}, "Undo cafe"), ElementsAre(4, 5, 6));  // no class
  EXPECT_THAT(ids({{"do_lower_case", false}, {"tokenizer_class", "BertTokenizer"}}, "Undo café"),
              ElementsAre(0, 0));
  EXPECT_THAT(ids({{"do_lower_case", false}, {"tokenizer_class", "PreTrainedTokenizerFast"}}, "Un"),
              ElementsAre(4));
  Json json = word_piece();
  json["normalizer"]["lowercase"] = false;
  folder_.write("tokenizer.json", json.dump());
  EXPECT_THAT(ids({{"tokenizer_class", "BertTokenizer"}}, "Undo café"), ElementsAre(4, 5, 6));
  EXPECT_THAT(ids({{"tokenizer_class", "BertTokenizer"}, {"strip_accents", false}}, "Un café"),
              ElementsAre(4, 0));

  json = Json::parse(R"({
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}]},
    "model": {"type": "BPE", "unk_token": "?", "vocab": {"?": 0, "x": 1, "Ġ": 2}, "merges": []}})");
  folder_.write("tokenizer.json", json.dump());
  EXPECT_THAT(ids(Json::object(), "x"), ElementsAre(2, 1));
  EXPECT_THAT(ids({{"tokenizer_class", "GPT2TokenizerFast"}}, "x"), ElementsAre(1));
  EXPECT_THAT(ids({{"tokenizer_class", "Qwen2Tokenizer"}, {"add_prefix_space", true}}, "x"),
              ElementsAre(2, 1));

  json["model"]["vocab"] = {{"?", 0}, {"x", 1}, {"▁", 2}};
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}, {"split", false}};
  folder_.write("tokenizer.json", json.dump());
  EXPECT_THAT(ids({{"add_prefix_space", false}}, "x"), ElementsAre(2, 1));
  EXPECT_THAT(ids({{"add_prefix_space", false}, {"tokenizer_class", "LlamaTokenizer"}}, "x"),
              ElementsAre(1));
}

TEST_F(TokenizerFile, CutsTheLongerTextFirstAndPadsOnlyWhenAsked) {
  Json json = word_piece();
  json["truncation"] = {{"max_length", 3}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {{"strategy", {{"Fixed", 9}}},
                     {"direction", "Right"},
                     {"pad_id", 3},
                     {"pad_type_id", 0},
                     {"pad_token", "[PAD]"}};
  const Tokenizer tokenizer = load(json);
  EXPECT_EQ(tokenizer.encode("undo undo cafe").ids.size(), 7u);
  const Encoding pair = tokenizer.encode("undo undo undo", "cafe", {.truncate = 6, .pad = 8});
  EXPECT_THAT(pair.ids, ElementsAre(1, 4, 5, 2, 6, 2, 3, 3));
  EXPECT_THAT(pair.sequence, ElementsAre(-1, 0, 0, -1, 1, -1, -1, -1));
  EXPECT_THROW(tokenizer.encode("undo", {.truncate = 1}), Error);
}

TEST_F(TokenizerFile, SaysWhatIsNotKnown) {
  Json json = word_piece();
  json["normalizer"]["type"] = "Rot13";
  EXPECT_THAT(error_of(json),
              AllOf(HasSubstr("normalizer.type"), HasSubstr("Rot13"), HasSubstr("NFC")));
  json = word_piece();
  json["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", "a+b"}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  EXPECT_THAT(error_of(json),
              AllOf(HasSubstr("pattern.Regex"), HasSubstr("a+b"), HasSubstr("GPT-2")));
  json = word_piece();
  json["model"]["type"] = "Markov";
  EXPECT_THAT(error_of(json),
              AllOf(HasSubstr("model.type"), HasSubstr("Markov"), HasSubstr("BPE")));
  json = word_piece();
  json["decoder"]["type"] = "Undo";
  EXPECT_THAT(error_of(json), HasSubstr("decoder.type"));
  for (const char* content : {"", "ab"}) {
    json["decoder"] = {{"type", "Strip"}, {"content", content}, {"start", 1}, {"stop", 0}};
    EXPECT_THAT(error_of(json), AllOf(HasSubstr("decoder.content"), HasSubstr("one character")));
    json["decoder"] = {{"type", "Metaspace"}, {"replacement", content}};
    EXPECT_THAT(error_of(json), HasSubstr("decoder.replacement"));
  }
  json = word_piece();
  json["post_processor"]["type"] = "Wrap";
  EXPECT_THAT(error_of(json), HasSubstr("post_processor.type"));
}

Json added(const std::string& content, bool special = false) {
  return {{"content", content}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false},    {"normalized", false},  {"special", special}};
}

Json replace(const std::string& old, const std::string& now) {
  return {{"type", "Replace"}, {"pattern", {{"String", old}}}, {"content", now}};
}

/// Memory is bounded by the size of what is given, whatever the file asks for.
TEST_F(TokenizerFile, RefusesTextsThatGrowWithoutBound) {
  Json json = word_piece();
  Json steps = Json::array();
  for (int i = 0; i < 9; ++i) steps.push_back(replace("a", std::string(16, 'a')));
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  const Tokenizer ninefold = load(json);
  EXPECT_EQ(ninefold.encode("b").ids.size(), 3u);
  EXPECT_THAT(headwise::error_of([&] { ninefold.encode("a"); }).what, HasSubstr("too long"));
  json["normalizer"] = replace("a", std::string(60'000, 'a'));
  json["added_tokens"] = Json::array({added("un")});
  const Tokenizer wide = load(json);
  EXPECT_EQ(wide.encode("unaun").ids.size(), 5u);  // a short text may grow by much
  std::string many;
  for (int i = 0; i < 100; ++i) many += "una";  // but not each of its pieces
  EXPECT_THAT(headwise::error_of([&] { wide.encode(many); }).got, HasSubstr("of 300"));
}

TEST_F(TokenizerFile, RefusesTemplatesThatPutTooMuch) {
  Json json = word_piece();
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json token = {{"SpecialToken", {{"id", "x"}, {"type_id", 0}}}};
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {text}},
      {"pair", Json::array()},
      {"special_tokens",
       {{"x", {{"id", "x"}, {"ids", std::vector<int>(3000, 1)}, {"tokens", {"x"}}}}}}};
  EXPECT_EQ(error_of(json), "no error");
  json["post_processor"]["single"] = {text, text};
  EXPECT_THAT(error_of(json), HasSubstr("twice"));
  json["post_processor"]["single"] = {text, token, token};
  EXPECT_THAT(error_of(json), HasSubstr("too many"));
}

TEST_F(TokenizerFile, RefusesBrokenVocabularies) {
  const auto vocabulary = [](const std::string& vocab) {
    return R"({"model": {"type": "WordLevel", "unk_token": "?", "vocab": )" + vocab + "}}";
  };
  EXPECT_EQ(error(vocabulary(R"({"?": 0, "a": 1})")), "no error");
  EXPECT_THAT(error(vocabulary(R"({"?": 0, "?": 1})")), HasSubstr("twice"));
  EXPECT_THAT(error(vocabulary(R"({"?": -1})")), HasSubstr("whole number"));
  EXPECT_THAT(error(vocabulary(R"({"?": 1.5})")), HasSubstr("whole number"));
  EXPECT_THAT(error(vocabulary(R"({"?": 99999999999})")), HasSubstr("whole number"));
  EXPECT_THAT(error(vocabulary(R"({"?": 2000000000})")), HasSubstr("far beyond"));
  EXPECT_THAT(error(vocabulary(R"({"\ud800": 0})")), HasSubstr("surrogate"));
  EXPECT_THAT(error(vocabulary("{\"\xFF\": 0}")), HasSubstr("UTF-8"));
  EXPECT_THAT(error(vocabulary(R"({"?": 0,})")), HasSubstr("model.vocab"));
  EXPECT_THAT(error(vocabulary("[]")), HasSubstr("model.vocab"));
  EXPECT_THAT(error(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a"]}})"),
              HasSubstr("merge"));
  EXPECT_THAT(error(R"({"model": {"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []}})"),
              HasSubstr("dropout"));
  EXPECT_THAT(error(R"({"model": {"type": "Unigram", "unk_id": 7, "vocab": [["a", 0]]}})"),
              HasSubstr("unk_id"));
  EXPECT_THAT(error(std::string("{")), HasSubstr("json"));
  EXPECT_THAT(error(std::string()), HasSubstr("json"));
}

Json unigram() {
  return Json::parse(R"({"model": {"type": "Unigram", "unk_id": 0,
                         "vocab": [["?", 0], ["a", -1], ["a", -2], ["b", -1]]}})");
}

TEST_F(TokenizerFile, AddedTokensComeBehindRepeatedPieces) {
  Json json = unigram();
  json["added_tokens"] = Json::array({added("<x>"), added("<y>")});
  const Tokenizer tokenizer = load(json);
  EXPECT_THAT(tokenizer.encode("a<x>b<y>").ids, ElementsAre(2, 4, 3, 5));  // as tokenizers has it
  EXPECT_EQ(tokenizer.size(), 6);
}

// The values are those of the tokenizers package.
TEST_F(TokenizerFile, TrimsUnknownTextOfUnigramByItself) {
  Json json = unigram();
  json["post_processor"] = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}};
  const Tokenizer tokenizer = load(json);
  EXPECT_THAT(tokenizer.encode(" z a").code_points, ElementsAre(TokenSpan{1, 2}, TokenSpan{3, 4}));
  EXPECT_THAT(tokenizer.encode("zz a ").code_points,
              ElementsAre(TokenSpan{0, 2}, TokenSpan{3, 4}, TokenSpan{5, 5}));
}

TEST_F(TokenizerFile, ATokenThatIsAddedAgainStaysSpecial) {
  Json json = unigram();
  json["added_tokens"] = Json::array({added("<x>", true), added("<x>", false)});
  const Tokenizer tokenizer = load(json);
  EXPECT_EQ(tokenizer.size(), 5);
  EXPECT_TRUE(tokenizer.is_special(4));
  EXPECT_THAT(tokenizer.special_positions(std::vector<int32_t>{4, 2, 4}), ElementsAre(0, 2));
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{2, 4}), "a");
}

/// A field of a protocol buffer that holds bytes.
std::string field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (size_t size = bytes.size(); out.size() == 1 || size > 0; size >>= 7) {
    out += static_cast<char>((size & 0x7F) | (size >= 0x80 ? 0x80 : 0));
  }
  return out + bytes;
}

std::string piece(const std::string& text, float score) {
  std::string bits(4, '\0');
  std::memcpy(bits.data(), &score, 4);
  return field(1, field(1, text) + '\x15' + bits);
}

/// Looking for a token at every place takes its length times that of the text.
TEST_F(TokenizerFile, RefusesTokensThatAreTooLong) {
  const std::string longest(4096, 'a'), longer(4097, 'a');
  Json json = unigram();
  json["added_tokens"] = Json::array({added(longest)});
  EXPECT_EQ(error_of(json), "no error");
  json["added_tokens"] = Json::array({added(longer)});
  EXPECT_THAT(error_of(json), AllOf(HasSubstr("too long"), HasSubstr("4097 bytes")));
  json["added_tokens"] = Json::array({added("bb")});
  json["added_tokens"][0]["normalized"] = true;
  json["normalizer"] = replace("b", std::string(3000, 'a'));
  EXPECT_THAT(error_of(json), HasSubstr("6000 bytes"));
  json = unigram();
  json["model"]["vocab"][1][0] = longer;
  EXPECT_THAT(error_of(json), HasSubstr("4097 bytes"));

  std::filesystem::remove(folder_.path() / "tokenizer.json");
  const auto refused = [&](const std::string& pieces) {
    folder_.write("tokenizer.model", pieces);
    return headwise::error_of([&] { Tokenizer::load(folder_.path()); });
  };
  EXPECT_THAT(refused(piece(longer, 0)).got, "4097 bytes");
  EXPECT_THAT(refused(piece("a", std::numeric_limits<float>::quiet_NaN())).what,
              HasSubstr("not finite"));
}

TEST_F(TokenizerFile, TakesTheSpaceBeforeATokenOnce) {
  Json json = unigram();
  json["added_tokens"] = Json::array({added(" ")});
  json["added_tokens"][0]["lstrip"] = true;
  const Tokenizer tokenizer = load(json);
  EXPECT_EQ(tokenizer.encode(std::string(1'000'000, ' ')).ids.size(), 1'000'000u);  // in no time
}

TEST_F(TokenizerFile, IsOfOneKindLoadedOrNot) {
  const auto kind = [&] {
    EXPECT_EQ(tokenizer_kind(folder_.path()), Tokenizer::load(folder_.path()).kind());
    return tokenizer_kind(folder_.path()).value();
  };
  folder_.write("tokenizer.model", piece("a", 0) + field(2, "\x18\x02"));  // BPE
  folder_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n");
  EXPECT_EQ(kind(), "WordPiece");
  folder_.write("tokenizer.json", R"({"model": {"vocab": {"a": 0}, "merges": []},
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel",
      "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]}})");
  EXPECT_EQ(kind(), "byte-level BPE");  // whatever comes first
  folder_.write("tokenizer.json", R"({"decoder": {"type": "ByteLevel"},
    "model": {"vocab": {"a": 0}, "merges": []}})");
  EXPECT_EQ(kind(), "BPE");  // a decoder alone does not make it one
}

TEST_F(TokenizerFile, ThereMayBeNone) {
  EXPECT_FALSE(Tokenizer::find(folder_.path()));
  EXPECT_THROW(Tokenizer::load(folder_.path()), Error);
}

/// A file that is not there may be left out; one that was meant to be there may not.
TEST_F(TokenizerFile, RefusesLinksThatLeadNowhere) {
  const auto link = [&](const char* name, const char* target) {
    std::filesystem::create_symlink(target, folder_.path() / name);
    const ErrorDetail error = headwise::error_of([&] { Tokenizer::find(folder_.path()); });
    std::filesystem::remove(folder_.path() / name);
    EXPECT_THAT(error.where, HasSubstr(name));
    return error.got;
  };
  EXPECT_THAT(link("tokenizer.json", "nowhere"), HasSubstr("a link to nowhere"));
  EXPECT_THAT(link("tokenizer.json", "tokenizer.json"), HasSubstr("symbolic links"));
  folder_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  EXPECT_TRUE(Tokenizer::find(folder_.path()));
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                           "config.json", "source.spm"}) {
    EXPECT_THAT(link(name, "nowhere"), HasSubstr("a link to nowhere")) << name;
  }
}

TEST_F(TokenizerFile, RefusesAPointerInPlaceOfASentencePieceFile) {
  folder_.write("tokenizer.model", "version https://git-lfs.example/spec/v1\n");
  try {
    Tokenizer::load(folder_.path());
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("tokenizer.model"), HasSubstr("pointer")));
  }
}

}  // namespace
}  // namespace headwise
