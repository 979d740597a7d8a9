// The metadata of model cards: what is read of what people write, and what is written of it.
#include "prune/card_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

CardField one(std::string value) { return {.values = {std::move(value)}}; }

TEST(CardMetadata, ReadsTheFieldsOfCards) {
  const auto fields = read_card_metadata(R"(---
language: en   # a comment
license: 'apache-2.0'
license_name: "it's \"free\""
base_model: org/name-7B
library_name: 'it''s'
tags: [a, 'b, c', "d"]
datasets:
- s2orc
  - embedding-data/QQP

- "ms: marco"
---
license: not of the block
)");
  EXPECT_EQ(fields.at("language"), one("en"));
  EXPECT_EQ(fields.at("license"), one("apache-2.0"));
  EXPECT_EQ(fields.at("license_name"), one("it's \"free\""));
  EXPECT_EQ(fields.at("base_model"), one("org/name-7B"));
  EXPECT_EQ(fields.at("library_name"), one("it's"));
  EXPECT_THAT(fields.at("tags").values, ElementsAre("a", "b, c", "d"));
  EXPECT_THAT(fields.at("datasets").values,
              ElementsAre("s2orc", "embedding-data/QQP", "ms: marco"));
  EXPECT_TRUE(fields.at("datasets").list);
  EXPECT_EQ(read_card_metadata("\xEF\xBB\xBF---\r\nlicense: mit\r\n---\r\n").at("license"),
            one("mit"));
}

TEST(CardMetadata, LeavesOutWhatIsNoText) {
  for (const char* line : {"license:",
                           "license: ~",
                           "license: null",
                           "license: *alias",
                           "license: &anchor mit",
                           "license: !!python/object:os.system ls",
                           "license: {a: b}",
                           "license: [a, b",
                           "license: |",
                           "license: 'mit",
                           "license: \"mit",
                           "license: \"\\q\"",
                           "license: a: b",
                           "license: \"a\" b",
                           "license: |\n  mit",
                           "license:\n  name: mit",
                           "license: mit\n  or not",
                           "license: 'a'b",
                           "license: []",
                           "license:\n- a: b\n  c: d",
                           "license: \"a\\nb\"",
                           "license: \"\\u0085\"",
                           "license: \"\\u2028\"",
                           "license: \xFF\xFE",
                           "license: a\x07"}) {
    EXPECT_THAT(read_card_metadata(std::string("---\n") + line + "\n---\n"), IsEmpty()) << line;
  }
  const std::string long_value(10'000, 'a');
  EXPECT_THAT(read_card_metadata("---\nlicense: " + long_value + "\n---\n"), IsEmpty());
  for (const char* card :
       {"", "---", "---\n", "---\nlicense: mit\n", "text\n---\nlicense: mit\n---\n"}) {
    EXPECT_THAT(read_card_metadata(card), IsEmpty()) << card;
  }
  const auto rest =
      read_card_metadata("---\nmodel-index:\n- name: x\n  results: 1\ntags: [*a, b]\n---\n");
  EXPECT_EQ(rest.size(), 1u);
  EXPECT_THAT(rest.at("tags").values, ElementsAre("b"));
}

TEST(CardMetadata, IsReadAgainAsItWasWritten) {
  const CardField hostile{.values = {"no", "1.0", "a\"\n", "---", "# x", "\\", "' : [", "中文"},
                          .list = true};
  std::string card =
      "---\n" + card_field("tags", hostile) + card_field("license", one("- ~")) + "---\n";
  const auto fields = read_card_metadata(card);
  EXPECT_THAT(fields.at("tags").values,
              ElementsAre("no", "1.0", "---", "# x", "\\", "' : [", "中文"));  // "\n" is no text
  EXPECT_EQ(fields.at("license"), one("- ~"));
}

}  // namespace
}  // namespace headwise
