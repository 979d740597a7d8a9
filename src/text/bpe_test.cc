// Merges in the order of their ranks, for short and long words, against the obvious loop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "headwise/core/error.h"
#include "text/model.h"

namespace headwise::text {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct Case {
  std::vector<std::string> tokens;
  Pairs merges;
};

Vocabulary vocabulary_of(const std::vector<std::string>& tokens) {
  Vocabulary vocabulary;
  for (size_t i = 0; i < tokens.size(); ++i) vocabulary.add(tokens[i], static_cast<int32_t>(i));
  vocabulary.index_ids("test");
  return vocabulary;
}

std::unique_ptr<const Model> model_of(const std::vector<std::string>& tokens, const Pairs& pairs,
                                      const BpeOptions& options = {}) {
  const Vocabulary vocabulary = vocabulary_of(tokens);
  Merges merges;
  for (const auto& [left, right] : pairs)
    merges.push_back(merge_of(vocabulary, left, right, "test", merges.size()));
  return make_bpe(vocabulary, merges, options, "tokenizer.json");
}

std::vector<std::string> tokens_of(const Model& model, std::string_view word) {
  ModelScratch scratch;
  std::vector<ModelToken> found;
  model.tokenize(word, scratch, found);
  std::vector<std::string> out;
  for (const ModelToken& token : found) out.emplace_back(model.vocabulary().token(token.id));
  return out;
}

std::vector<std::string> merged_by_the_book(const Pairs& merges, std::string_view word) {
  std::vector<std::string> symbols;
  for (const char c : word) symbols.emplace_back(1, c);
  for (;;) {
    size_t best = merges.size(), place = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      for (size_t rank = 0; rank < best; ++rank) {
        if (symbols[i] == merges[rank].first && symbols[i + 1] == merges[rank].second) {
          best = rank;
          place = i;
        }
      }
    }
    if (best == merges.size()) return symbols;
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(place) + 1);
  }
}

const Case kCase{{"a", "b", "c", "ab", "bc", "abc", "aa", "aaaa", "cab"},
                 {{"a", "b"}, {"a", "a"}, {"b", "c"}, {"aa", "aa"}, {"ab", "c"}, {"c", "ab"}}};

TEST(Bpe, MergesByRankFromTheLeft) {
  const auto model = model_of(kCase.tokens, kCase.merges);
  uint64_t state = 1;
  for (const size_t size : {1u, 2u, 5u, 31u, 32u, 33u, 200u}) {
    for (int repeat = 0; repeat < 50; ++repeat) {
      std::string word;
      while (word.size() < size) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        word += static_cast<char>('a' + (state >> 40) % 3);
      }
      ASSERT_EQ(tokens_of(*model, word), merged_by_the_book(kCase.merges, word)) << word;
    }
  }
}

TEST(Bpe, AWordOfAMillionLettersTakesLittleTime) {
  const auto model = model_of(kCase.tokens, kCase.merges);
  EXPECT_EQ(tokens_of(*model, std::string(1 << 20, 'a')).size(), size_t{1} << 18);
}

TEST(Bpe, FallsBackToBytes) {
  auto tokens = kCase.tokens;
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    tokens.emplace_back(name);
  }
  const auto model = model_of(tokens, kCase.merges, {.byte_fallback = true});
  EXPECT_THAT(tokens_of(*model, "a\u00E9b"), testing::ElementsAre("a", "<0xC3>", "<0xA9>", "b"));
}

TEST(Bpe, FusesUnknownCharactersWhenAsked) {
  auto tokens = kCase.tokens;
  tokens.emplace_back("?");
  for (const bool fuse : {false, true}) {
    const auto model = model_of(tokens, kCase.merges, {.unk_token = "?", .fuse_unk = fuse});
    EXPECT_EQ(tokens_of(*model, "axyb").size(), fuse ? 3u : 4u);
  }
}

TEST(Bpe, WordsApartGiveTheSameAsOneText) {
  const std::string mark = "\u2581";
  std::vector<std::string> tokens{"?", "a", "b", mark, mark + "a", mark + mark, mark + "ab"};
  const Pairs merges{{mark, "a"}, {mark, mark}, {mark + "a", "b"}};
  const auto apart = model_of(tokens, merges, {.unk_token = "?"});
  EXPECT_THAT(tokens_of(*apart, mark + "ab" + mark + mark + mark + "ab" + mark),
              testing::ElementsAre(mark + "ab", mark + mark, mark + "ab", mark));
}

TEST(Bpe, NamesAMergeThatNeedsAnUnknownToken) {
  try {
    model_of({"a", "b"}, {{"a", "b"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.detail().where, "tokenizer.json: merges[0]");
    EXPECT_EQ(error.detail().got, "\"ab\"");
  }
}

}  // namespace
}  // namespace headwise::text
