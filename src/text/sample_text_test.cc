// The built-in texts: enough lines, all different, clean.
#include "headwise/text/sample_text.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <vector>

#include "text/unicode.h"

namespace headwise::text {
namespace {

std::vector<std::string_view> lines_in(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t size = text.find('\n');
    lines.push_back(text.substr(0, size));
    text.remove_prefix(size == std::string_view::npos ? text.size() : size + 1);
  }
  return lines;
}

TEST(LongerSampleText, HasAtLeastAThousandLines) {
  EXPECT_GE(lines_in(longer_sample_text()).size(), 1000u);
  EXPECT_TRUE(longer_sample_text().ends_with('\n'));
}

TEST(LongerSampleText, RepeatsNoLineOfItselfOrOfTheShorterText) {
  std::set<std::string_view> seen;
  for (const std::string_view line : lines_in(sample_text())) seen.insert(line);
  for (const std::string_view line : lines_in(longer_sample_text()))
    EXPECT_TRUE(seen.insert(line).second) << line;
}

TEST(LongerSampleText, HasNoEmptyLinesAndNoBlanksAtTheirEnds) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  for (const std::string_view line : lines_in(longer_sample_text())) {
    ASSERT_FALSE(line.empty());
    EXPECT_EQ(kBlanks.find(line.front()), std::string_view::npos) << line;
    EXPECT_EQ(kBlanks.find(line.back()), std::string_view::npos) << line;
  }
}

TEST(LongerSampleText, IsAscii) {
  EXPECT_TRUE(is_valid_utf8(longer_sample_text()));
  for (const char c : longer_sample_text()) ASSERT_LT(static_cast<unsigned char>(c), 0x80);
}

}  // namespace
}  // namespace headwise::text
