// Tokenizers of every family against the tokenizers package: ids, offsets, words, types, masks,
// pairs, truncation, padding and decoding.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "golden/text_golden.h"
#include "headwise/text/tokenizer_kind.h"

namespace headwise::golden {
namespace {

constexpr int kShown = 5;  // differences of a tokenizer; the others are only counted

struct Named {
  std::string folder, expected;
  bool target;
};
void PrintTo(const Named& named, std::ostream* out) { *out << named.folder; }

std::vector<Named> all_tokenizers() {
  std::vector<Named> all;
  for (const auto& file : std::filesystem::directory_iterator(text_folder() / "expected")) {
    const std::string name = file.path().stem().string();
    const ExpectedTexts expected = load_expected_texts(name);
    for (const std::string& folder : expected.folders) {
      all.push_back({folder, name, expected.target});
    }
  }
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.folder < b.folder; });
  return all;
}

class TokenizerGolden : public ::testing::TestWithParam<Named> {
 protected:
  const ExpectedTexts expected_ = load_expected_texts(GetParam().expected);
  const std::vector<std::string> texts_ = load_texts();
  const Tokenizer tokenizer_ = Tokenizer::load(text_folder() / "tokenizers" / GetParam().folder);

  int word(const Encoding& e, size_t i) const { return expected_.has_words ? e.words[i] : -1; }

  /// The encoding as a case of the expected file writes it.
  std::string tokens_of(const Encoding& e) const {
    std::string row;
    for (size_t i = 0; i < e.ids.size(); ++i) {
      row += fmt::format("{}{}:{}-{}:{}", i ? " " : "", e.ids[i], e.code_points[i].begin,
                         e.code_points[i].end, word(e, i) < 0 ? "-" : std::to_string(word(e, i)));
    }
    return row.empty() ? "-" : row;
  }

  void add(Crc32& crc, const Encoding& e) const {
    crc.add(static_cast<int64_t>(e.ids.size()));
    for (size_t i = 0; i < e.ids.size(); ++i) {
      for (const int64_t number :
           {int64_t{e.ids[i]}, int64_t{e.type_ids[i]}, int64_t{word(e, i)}, int64_t{e.special[i]},
            e.code_points[i].begin, e.code_points[i].end}) {
        crc.add(number);
      }
    }
  }

  bool has_other_sizes(const Encoding& e) const {
    const size_t n = e.ids.size();
    return e.type_ids.size() != n || e.words.size() != n || e.special.size() != n ||
           e.bytes.size() != n || e.code_points.size() != n || e.sequence.size() != n;
  }

  /// Offsets in bytes are those in code points; inside a character only where a token is one byte.
  static void expect_same_places(const Encoding& e, std::string_view text, int sequence,
                                 const std::string& where) {
    std::vector<int64_t> code_point;  // of each byte, and of the end
    for (int64_t count = -1; const char byte : text) {
      count += (byte & 0xC0) != 0x80;
      code_point.push_back(count);
    }
    code_point.push_back(code_point.empty() ? 0 : code_point.back() + 1);
    const auto size = static_cast<int64_t>(text.size());
    for (size_t i = 0; i < e.ids.size(); ++i) {
      if (e.sequence[i] != sequence) continue;
      const auto [begin, end] = e.bytes[i];
      ASSERT_TRUE(0 <= begin && begin <= end && end <= size) << where << ", token " << i;
      ASSERT_EQ((TokenSpan{code_point[begin], code_point[end]}), e.code_points[i])
          << where << ", token " << i << ", bytes " << begin << " to " << end;
    }
  }
};

std::string digits(const auto& numbers) {
  std::string row;
  for (const int number : numbers) row += number < 0 ? "-" : std::to_string(number);
  return row.empty() ? "-" : row;
}

std::string shown(std::string_view decoded, const std::string& text) {
  return decoded == text ? "=" : decoded.empty() ? "-" : escape_controls(decoded);
}

std::string expected_decoding(const std::string& field) {
  return field == "=" || field == "-" ? field : escape_controls(unescape(field));
}

TEST_P(TokenizerGolden, HasTheSameSize) { EXPECT_EQ(tokenizer_.size(), expected_.size); }

TEST_P(TokenizerGolden, IsOfTheKindThatItsFilesSay) {
  EXPECT_EQ(tokenizer_kind(text_folder() / "tokenizers" / GetParam().folder), tokenizer_.kind());
}

TEST_P(TokenizerGolden, EncodesReadableCases) {
  EXPECT_GE(expected_.cases.size(), 10u);
  int differ = 0;
  for (const TextCase& one : expected_.cases) {
    const std::string& text = texts_.at(one.line);
    const Encoding e = one.second ? tokenizer_.encode(text, texts_.at(*one.second), one.options)
                                  : tokenizer_.encode(text, one.options);
    const std::string where = fmt::format(
        "line {} \"{}\"{}{}{}{}", one.line, escape_controls(text),
        one.second
            ? fmt::format(" with {} \"{}\"", *one.second, escape_controls(texts_[*one.second]))
            : "",
        one.options.add_special ? "" : " without special tokens",
        one.options.truncate ? fmt::format(" cut to {}", *one.options.truncate) : "",
        one.options.pad ? fmt::format(" padded to {}", *one.options.pad) : "");
    ASSERT_FALSE(has_other_sizes(e)) << where;
    EXPECT_EQ(tokens_of(e), one.tokens) << where;
    EXPECT_EQ(digits(e.type_ids), one.types) << where;
    EXPECT_EQ(digits(e.special), one.mask) << where;
    EXPECT_EQ(digits(e.sequence), one.sequences) << where;
    EXPECT_EQ(shown(tokenizer_.decode(e.ids), text), expected_decoding(one.decoded)) << where;
    EXPECT_EQ(shown(tokenizer_.decode(e.ids, false), text), expected_decoding(one.decoded_all))
        << where;
    expect_same_places(e, text, 0, where);
    if (one.second) expect_same_places(e, texts_[*one.second], 1, where);
    if (HasFailure() && ++differ == kShown) return;
  }
}

TEST_P(TokenizerGolden, EncodesAndDecodesEveryLine) {
  ASSERT_EQ(expected_.lines.size(), (texts_.size() + expected_.stride - 1) / expected_.stride);
  EXPECT_GE(texts_.size(), 2000u);
  size_t compared = 0;
  int differ = 0;
  for (size_t i = 0; i < expected_.lines.size(); ++i) {
    if (!expected_.lines[i].compared) continue;
    ++compared;
    const size_t line = i * expected_.stride;
    const std::string& text = texts_[line];
    const Encoding with = tokenizer_.encode(text, {.target = expected_.target});
    const Encoding without =
        tokenizer_.encode(text, {.add_special = false, .target = expected_.target});
    const std::string where =
        fmt::format("line {} \"{}\"", line, escape_controls(text).substr(0, 2000));
    ASSERT_FALSE(has_other_sizes(with) || has_other_sizes(without)) << where;
    Crc32 encoded, decoded;
    add(encoded, with);
    add(encoded, without);
    const std::string skipped = tokenizer_.decode(with.ids),
                      all = tokenizer_.decode(with.ids, false);
    decoded.add(skipped);
    decoded.add(std::string_view("\0", 1));
    decoded.add(all);
    expect_same_places(with, text, 0, where);
    const bool same_code = encoded.value() == expected_.lines[i].encoded;
    const bool same_text = decoded.value() == expected_.lines[i].decoded;
    if (same_code && same_text) continue;
    if (++differ > kShown) continue;
    ADD_FAILURE() << where << " is " << (same_code ? "decoded" : "encoded")
                  << " in another way (tests/parity/tokenizer.py shows the expected one)\n  got "
                  << tokens_of(with) << "\n  type ids " << digits(with.type_ids) << "\n  special "
                  << digits(with.special) << "\n  decoded \"" << escape_controls(skipped)
                  << "\"\n  with special tokens \"" << escape_controls(all) << '"';
  }
  EXPECT_GT(compared, expected_.lines.size() * 98 / 100);
  EXPECT_EQ(differ, 0) << "lines of " << expected_.lines.size() << " differ";
}

TEST_P(TokenizerGolden, EncodesEveryCodePoint) {
  for (const auto& [block, crc] : expected_.sweep) {
    Crc32 encoded;
    for (const std::string& text : sweep_texts(block)) {
      add(encoded, tokenizer_.encode(text, {.add_special = false}));
    }
    EXPECT_EQ(encoded.value(), crc) << fmt::format(
        "code points {0:X}000 to {0:X}FFF (tests/parity/tokenizer.py --sweep names them)", block);
  }
}

/// Bytes that are no UTF-8 stand for U+FFFD each.
TEST_P(TokenizerGolden, ReadsBrokenUtf8) {
  const std::string broken = "a\xFF\xC3 \xE2\x82z\xF0\x9F\x98 \xED\xA0\x80\xC0\x80.";
  const std::string replaced = [] {
    const std::string r = "\xEF\xBF\xBD";
    return "a" + r + r + " " + r + r + "z" + r + r + r + " " + r + r + r + r + r + ".";
  }();
  const Encoding got = tokenizer_.encode(broken), expected = tokenizer_.encode(replaced);
  EXPECT_EQ(tokens_of(got), tokens_of(expected));
  for (size_t i = 0; i < got.ids.size(); ++i) {
    if (got.sequence[i] < 0) continue;
    EXPECT_EQ(got.bytes[i], got.code_points[i]) << "each is one byte, token " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Folders, TokenizerGolden, ::testing::ValuesIn(all_tokenizers()),
                         [](const auto& named) {
                           std::string name =
                               named.param.folder + (named.param.target ? "_target" : "");
                           std::replace_if(
                               name.begin(), name.end(),
                               [](char c) { return c == '-' || c == '.'; }, '_');
                           return name;
                         });

}  // namespace
}  // namespace headwise::golden
