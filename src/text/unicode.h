// UTF-8 and the properties of code points, with the Unicode versions of the `tokenizers` package.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headwise::text {

enum CharFlag : uint16_t {
  kLetter = 1 << 0,         // \p{L} in a split pattern
  kNumber = 1 << 1,         // \p{N} in a split pattern
  kSpace = 1 << 2,          // White_Space
  kPunctuation = 1 << 3,    // ASCII punctuation and category P
  kControl = 1 << 4,        // what BERT's clean_text removes: Cc, Cf, Co, U+0000, U+FFFD
  kNonspacing = 1 << 5,     // category Mn
  kCombining = 1 << 6,      // category M
  kMark = 1 << 7,           // \p{M} in a split pattern
  kWord = 1 << 8,           // \w
  kNumeric = 1 << 9,        // category N, newest version
  kUpperOrOther = 1 << 10,  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] in a split pattern
  kLowerOrOther = 1 << 11,  // [\p{Ll}\p{Lm}\p{Lo}\p{M}] in a split pattern
  kDecomposes = 1 << 12,    // NFD changes it or may move it
  kComposes = 1 << 13,      // NFC may change it or join it with what stands before
  kLowers = 1 << 14,        // has another lower case
  kIdeograph = 1 << 15,     // the CJK blocks that BERT splits
};

/// What SentencePiece puts for a space.
inline constexpr std::string_view kMetaspace = "\u2581";

/// The flags of the code points below kFlagTableSize.
inline constexpr char32_t kFlagTableSize = 0x20000;
const uint16_t* flag_table();
uint16_t flags_beyond_table(char32_t c);

inline uint16_t flags_of(const uint16_t* table, char32_t c) {
  return c < kFlagTableSize ? table[c] : flags_beyond_table(c);
}
inline uint16_t flags_of(char32_t c) { return flags_of(flag_table(), c); }

/// The code point at `at` of valid UTF-8, and `at` moves behind it.
inline char32_t next_char(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t first = byte(at);
  if (first < 0x80) {
    at += 1;
    return first;
  }
  if (first < 0xE0) {
    at += 2;
    return (first & 0x1F) << 6 | (byte(at - 1) & 0x3F);
  }
  if (first < 0xF0) {
    at += 3;
    return (first & 0x0F) << 12 | (byte(at - 2) & 0x3F) << 6 | (byte(at - 1) & 0x3F);
  }
  at += 4;
  return (first & 0x07) << 18 | (byte(at - 3) & 0x3F) << 12 | (byte(at - 2) & 0x3F) << 6 |
         (byte(at - 1) & 0x3F);
}

inline bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

/// The code point that ends before `at` (at > 0), and `at` moves before it.
inline char32_t previous_char(std::string_view text, size_t& at) {
  do {
    --at;
  } while (at > 0 && is_continuation(text[at]));
  size_t behind = at;
  return next_char(text, behind);
}

/// How many bytes the character that starts with this byte has, in valid UTF-8.
inline size_t char_size(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void append_char(std::string& out, char32_t c);
bool is_ascii(std::string_view text);

/// The size of the valid character at `at`, or 0.
size_t valid_char_size(std::string_view text, size_t at);
bool is_valid_utf8(std::string_view text);

/// Every longest start of a character that does not go on, and every other byte that fits nowhere,
/// becomes U+FFFD.
std::string lossy_utf8(std::string_view text);

/// The lower case of a code point: one or two code points.
struct LowerCase {
  char32_t first = 0;
  char32_t second = 0;  // 0: none
};
LowerCase lower_case(char32_t c);
char32_t upper_case(char32_t c);  // the simple one

int combining_class(char32_t c);

/// Writes the full canonical or compatibility decomposition; returns how many code points it has.
inline constexpr int kLongestDecomposition = 18;
int decompose(char32_t c, bool compatibility, char32_t (&out)[kLongestDecomposition]);

/// The canonical composition of the two, or 0.
char32_t compose(char32_t first, char32_t second);

/// The ends of the extended grapheme clusters of valid UTF-8.
void grapheme_ends(std::string_view text, std::vector<uint32_t>& ends);

}  // namespace headwise::text
