// The trie against a search through all entries.
#include "text/trie.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace headwise::text {
namespace {

using Found = std::vector<std::pair<size_t, int32_t>>;

Found prefixes(const Trie& trie, std::string_view text) {
  Found found;
  trie.prefixes(text, [&](size_t size, int32_t value) { found.emplace_back(size, value); });
  return found;
}

TEST(Trie, FindsWhatASearchThroughAllEntriesFinds) {
  uint64_t state = 7;
  const auto draw = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  std::map<std::string, int32_t> entries;
  while (entries.size() < 3000) {
    std::string entry;
    const size_t size = 1 + draw(6);
    for (size_t i = 0; i < size; ++i)
      entry += static_cast<char>(draw(8) == 0 ? draw(256) : 'a' + draw(4));
    entries[entry] = static_cast<int32_t>(entries.size());
  }
  const Trie trie({entries.begin(), entries.end()});
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (int j = 0; j < 8; ++j) text += static_cast<char>('a' + draw(5));
    Found expected;
    for (size_t size = 1; size <= text.size(); ++size) {
      const auto at = entries.find(text.substr(0, size));
      if (at != entries.end()) expected.emplace_back(size, at->second);
    }
    ASSERT_EQ(prefixes(trie, text), expected) << text;
  }
}

TEST(Trie, TakesTheLastOfEqualEntries) {
  const Trie trie({{"ab", 1}, {"a", 2}, {"ab", 3}});
  EXPECT_EQ(trie.longest_prefix("abc").value, 3);
  EXPECT_EQ(trie.longest_prefix("ax").value, 2);
  EXPECT_EQ(trie.longest_prefix("x").size, 0u);
}

TEST(Trie, FindsNothingWhenEmpty) { EXPECT_EQ(Trie().longest_prefix("a").size, 0u); }

}  // namespace
}  // namespace headwise::text
