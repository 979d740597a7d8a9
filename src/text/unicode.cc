// UTF-8 and the properties of code points: utf8proc's tables, with the exceptions applied.
#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>

#include "text/unicode_exceptions.h"

namespace headwise::text {
namespace {

bool contains(std::span<const CodePointRange> ranges, char32_t c) {
  const auto at = std::upper_bound(ranges.begin(), ranges.end(), c,
                                   [](char32_t c, const CodePointRange& r) { return c < r.first; });
  return at != ranges.begin() && c <= std::prev(at)->last;
}

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) ||
         (c >= 0x7B && c <= 0x7E);
}

// As the original BERT code has it, with a hole between 2B820 and 2B91F.
bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_hangul_syllable(char32_t c) { return c >= 0xAC00 && c <= 0xD7A3; }
bool is_conjoining_jamo(char32_t c) {
  return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2);
}
bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

uint32_t category_flags(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kLetter | kWord | kUpperOrOther;
    case UTF8PROC_CATEGORY_LL:
      return kLetter | kWord | kLowerOrOther;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetter | kWord | kUpperOrOther | kLowerOrOther;
    case UTF8PROC_CATEGORY_MN:
      return kNonspacing | kCombining | kMark | kWord | kUpperOrOther | kLowerOrOther;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kCombining | kMark | kWord | kUpperOrOther | kLowerOrOther;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
      return kNumber | kNumeric | kWord;
    case UTF8PROC_CATEGORY_NO:
      return kNumber | kNumeric;
    case UTF8PROC_CATEGORY_PC:
      return kPunctuation | kWord;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuation;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      return kControl;
    default:
      return 0;
  }
}

char32_t normal_form_c(char32_t c) {
  utf8proc_int32_t out[kLongestDecomposition];
  int boundary = 0;
  const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), out,
                                         kLongestDecomposition, UTF8PROC_DECOMPOSE, &boundary);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const auto size =
      utf8proc_normalize_utf32(out, std::min<utf8proc_ssize_t>(n, kLongestDecomposition), options);
  return size == 1 ? static_cast<char32_t>(out[0]) : 0;
}

uint32_t normal_form_flags(char32_t c) {
  const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  if (property->combining_class != 0) return kDecomposes | kComposes;
  const bool second_of_pair = property->comb_index != UINT16_MAX && property->comb_index >= 0x8000;
  uint32_t flags = second_of_pair ? kComposes : 0;
  if (property->decomp_seqindex != UINT16_MAX && property->decomp_type == 0) {
    flags |= kDecomposes;
    if (normal_form_c(c) != c) flags |= kComposes;
  }
  return flags;
}

// What one entry of utf8proc's table says; the same for all code points that share the entry.
uint32_t entry_flags(char32_t c) {
  return category_flags(c) | normal_form_flags(c) | (lower_case(c).first != c ? kLowers : 0);
}

uint16_t with_block_flags(char32_t c, uint32_t flags) {
  if (is_white_space(c)) flags |= kSpace;
  if (is_ascii_punctuation(c)) flags |= kPunctuation;
  if (c == 0x200C || c == 0x200D) flags |= kWord;
  if (c == '\t' || c == '\n' || c == '\r') flags &= ~static_cast<uint32_t>(kControl);
  if (c == 0xFFFD) flags |= kControl;
  if (is_ideograph(c)) flags |= kIdeograph;
  if (is_hangul_syllable(c)) flags |= kDecomposes;
  if (is_conjoining_jamo(c)) flags |= kComposes;
  return static_cast<uint16_t>(flags);
}

std::unique_ptr<uint16_t[]> make_flag_table() {
  auto table = std::make_unique<uint16_t[]>(kFlagTableSize);
  const utf8proc_property_t* last = nullptr;
  uint32_t flags = 0;
  for (char32_t c = 0; c < kFlagTableSize; ++c) {
    if (is_surrogate(c)) continue;
    const auto* entry = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
    if (entry != last) flags = entry_flags(c);
    last = entry;
    table[c] = with_block_flags(c, flags);
  }
  for (const auto& exception : flag_exceptions()) {
    for (const auto& range : exception.ranges) {
      for (char32_t c = range.first; c <= range.last && c < kFlagTableSize; ++c) {
        table[c] = static_cast<uint16_t>(exception.set ? table[c] | exception.flag
                                                       : table[c] & ~exception.flag);
      }
    }
  }
  return table;
}

}  // namespace

const uint16_t* flag_table() {
  static const auto table = make_flag_table();
  return table.get();
}

uint16_t flags_beyond_table(char32_t c) {
  if (c > 0x10FFFF) return 0;
  uint16_t flags = with_block_flags(c, entry_flags(c));
  for (const auto& exception : flag_exceptions()) {
    if (!contains(exception.ranges, c)) continue;
    flags = static_cast<uint16_t>(exception.set ? flags | exception.flag : flags & ~exception.flag);
  }
  return flags;
}

void append_char(std::string& out, char32_t c) {
  const auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

bool is_ascii(std::string_view text) {
  size_t at = 0;
  uint64_t high = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    high |= word;
  }
  for (; at < text.size(); ++at) high |= static_cast<uint8_t>(text[at]);
  return (high & 0x8080808080808080u) == 0;
}

size_t valid_char_size(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[at + i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  if (size == 0 || text.size() - at < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool surrogate = first == 0xED && byte(1) >= 0xA0;
  const bool beyond = first == 0xF4 && byte(1) >= 0x90;
  return overlong || surrogate || beyond ? 0 : size;
}

namespace {

// How many bytes at the start of a text that is not valid there begin a character: at least 1.
size_t broken_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0xE0 || first > 0xF4 || text.size() < 2) return 1;
  const uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 1;
  return first >= 0xF0 && text.size() > 2 && is_continuation(text[2]) ? 3 : 2;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (text.size() - at >= 8 && is_ascii(text.substr(at, 8))) {
      at += 8;
      continue;
    }
    const size_t size = valid_char_size(text, at);
    if (size == 0) return false;
    at += size;
  }
  return true;
}

std::string lossy_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (const size_t size = valid_char_size(text, at); size > 0) {
      out.append(text, at, size);
      at += size;
    } else {
      append_char(out, 0xFFFD);
      at += broken_size(text.substr(at));
    }
  }
  return out;
}

LowerCase lower_case(char32_t c) {
  if (c == 0x130) return {'i', 0x307};
  if (c >= 0x10D50 && c <= 0x10D65) return {c + 0x20, 0};
  if (c >= 0x16EA0 && c <= 0x16EB8) return {c + 0x1B, 0};
  switch (c) {
    case 0x1C89:
    case 0xA7CC:
    case 0xA7CE:
    case 0xA7D2:
    case 0xA7D4:
    case 0xA7DA:
      return {c + 1, 0};
    case 0xA7CB:
      return {0x264, 0};
    case 0xA7DC:
      return {0x19B, 0};
    default:
      return {static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), 0};
  }
}

char32_t upper_case(char32_t c) {
  return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

int combining_class(char32_t c) {
  if (contains(class_zero_exceptions(), c)) return 0;
  return static_cast<int>(utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class);
}

int decompose(char32_t c, bool compatibility, char32_t (&out)[kLongestDecomposition]) {
  out[0] = c;
  if (contains(undecomposed_exceptions(), c)) return 1;
  utf8proc_int32_t codes[kLongestDecomposition];
  int boundary = 0;
  const int options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  const auto size =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), codes, kLongestDecomposition,
                              static_cast<utf8proc_option_t>(options), &boundary);
  if (size < 1 || size > kLongestDecomposition) return 1;
  std::copy(codes, codes + size, out);
  return static_cast<int>(size);
}

char32_t compose(char32_t first, char32_t second) {
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first),
                              static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const bool composed = utf8proc_normalize_utf32(pair, 2, options) == 1;
  const auto c = static_cast<char32_t>(pair[0]);
  return composed && !contains(undecomposed_exceptions(), c) ? c : 0;
}

void grapheme_ends(std::string_view text, std::vector<uint32_t>& ends) {
  ends.clear();
  utf8proc_int32_t state = 0;
  char32_t last = 0;
  for (size_t at = 0; at < text.size();) {
    const auto begin = static_cast<uint32_t>(at);
    const char32_t c = next_char(text, at);
    if (begin > 0 && utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last),
                                                      static_cast<utf8proc_int32_t>(c), &state)) {
      ends.push_back(begin);
    }
    last = c;
  }
  if (!text.empty()) ends.push_back(static_cast<uint32_t>(text.size()));
}

}  // namespace headwise::text
