// The split patterns on texts where their alternatives meet; what they give was checked with the
// expressions themselves.
#include "text/word_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headwise::text {
namespace {

using testing::ElementsAre;

std::vector<std::string> words(const Pattern& pattern, std::string_view text) {
  std::vector<Match> matches;
  pattern.find(text, matches);
  std::vector<std::string> out;
  for (const Match& match : matches)
    out.emplace_back(text.substr(match.begin, match.end - match.begin));
  return out;
}

TEST(WordPatterns, Gpt2KeepsOneSpaceBeforeAWord) {
  EXPECT_THAT(
      words(Gpt2Words(), "I'm  here,\n\nyou're 42nd  "),
      ElementsAre("I", "'m", " ", " here", ",", "\n", "\n", "you", "'re", " 42", "nd", "  "));
}

TEST(WordPatterns, Gpt2TakesContractionsInLowerCaseOnly) {
  EXPECT_THAT(words(Gpt2Words(), "I'M 'see"), ElementsAre("I", "'", "M", " '", "see"));
  EXPECT_THAT(words(Gpt2Words(), "'see"), ElementsAre("'s", "ee"));
}

TEST(WordPatterns, Llama3JoinsSignsWithLettersAndLimitsNumbers) {
  EXPECT_THAT(
      words(Cl100kWords(3, false), "#tag 12345 a'LL (x)\r\n\r\n  y"),
      ElementsAre("#tag", " ", "123", "45", " a", "'LL", " (", "x", ")\r\n\r\n", " ", " y"));
}

TEST(WordPatterns, Llama3EndsALineAtItsLastBreak) {
  EXPECT_THAT(words(Cl100kWords(3, false), "a \n \n  b"), ElementsAre("a", " \n \n", " ", " b"));
}

TEST(WordPatterns, Qwen2TakesDigitsOneByOne) {
  EXPECT_THAT(words(Cl100kWords(1, false), "x12"), ElementsAre("x", "1", "2"));
}

TEST(WordPatterns, LongSCountsAsAContraction) {
  EXPECT_THAT(words(Cl100kWords(3, false), "x'\u017Fy"), ElementsAre("x", "'\u017F", "y"));
}

TEST(WordPatterns, O200kEndsAWordBeforeUpperCase) {
  EXPECT_THAT(words(O200kWords(3, true), "camelCase HTMLPage it's a/b//\n"),
              ElementsAre("camel", "Case", " HTMLPage", " it's", " a", "/b", "//\n"));
}

TEST(WordPatterns, AllMatchEveryByteOfAnyText) {
  const std::string text = "\t \u00A0\u3000x\u0301y\u4E2D\u6587\U0001F600\u0660\u0661'\n'S \r";
  const Gpt2Words gpt2;
  const Cl100kWords llama(3, false), qwen(1, true);
  const O200kWords o200k(3, true);
  for (const Pattern* pattern :
       std::initializer_list<const Pattern*>{&gpt2, &llama, &qwen, &o200k}) {
    std::string joined;
    for (const std::string& word : words(*pattern, text)) joined += word;
    EXPECT_EQ(joined, text);
  }
}

}  // namespace
}  // namespace headwise::text
