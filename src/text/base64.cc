// Base64: four characters for three bytes.
#include "text/base64.h"

#include <algorithm>
#include <cstdint>

#include "headwise/core/error.h"

namespace headwise::text {
namespace {

int value_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

[[noreturn]] void refuse_base64(const std::string& where, const std::string& got) {
  throw Error({.what = "tokenizer: not base64",
               .where = where,
               .got = got,
               .expected = "groups of four of A-Z, a-z, 0-9, + and /, the last padded with ="});
}

}  // namespace

std::string decode_base64(std::string_view text, const std::string& where) {
  if (text.size() % 4 != 0) refuse_base64(where, std::to_string(text.size()) + " characters");
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (size_t at = 0; at < text.size(); at += 4) {
    uint32_t bits = 0;
    for (size_t i = at; i < at + 4; ++i) {
      const int value = i >= text.size() - padding ? 0 : value_of(text[i]);
      if (value < 0) refuse_base64(where, "another character, number " + std::to_string(i));
      bits = bits << 6 | static_cast<uint32_t>(value);
    }
    for (int shift = 16; shift >= 0; shift -= 8) out.push_back(static_cast<char>(bits >> shift));
  }
  out.erase(out.size() - padding);
  return out;
}

std::string encode_base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i) {
      bits = bits << 8 | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0);
    }
    for (size_t i = 0; i < 4; ++i) text += i <= count ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

}  // namespace headwise::text
