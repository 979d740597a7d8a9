// GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes for U+0100 and on.
#include "text/byte_alphabet.h"

#include "text/unicode.h"

namespace headwise::text {
namespace {

constexpr char32_t kFirstSubstitute = 0x100;
constexpr int kSubstitutes = 68;

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

std::array<char32_t, 256> make_alphabet() {
  std::array<char32_t, 256> alphabet{};
  char32_t next = kFirstSubstitute;
  for (int byte = 0; byte < 256; ++byte) {
    alphabet[static_cast<size_t>(byte)] =
        stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
  }
  return alphabet;
}

std::array<uint8_t, kSubstitutes> make_substituted() {
  std::array<uint8_t, kSubstitutes> bytes{};
  for (size_t byte = 0; byte < 256; ++byte) {
    const char32_t c = byte_alphabet()[byte];
    if (c >= kFirstSubstitute) bytes[c - kFirstSubstitute] = static_cast<uint8_t>(byte);
  }
  return bytes;
}

}  // namespace

const std::array<char32_t, 256>& byte_alphabet() {
  static const auto alphabet = make_alphabet();
  return alphabet;
}

int byte_of(char32_t c) {
  static const auto substituted = make_substituted();
  if (c < kFirstSubstitute)
    return stands_for_itself(static_cast<int>(c)) ? static_cast<int>(c) : -1;
  return c < kFirstSubstitute + kSubstitutes ? substituted[c - kFirstSubstitute] : -1;
}

bool append_bytes(std::string_view token, std::string& out) {
  const size_t before = out.size();
  for (size_t at = 0; at < token.size();) {
    const int byte = byte_of(next_char(token, at));
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(byte));
  }
  return true;
}

std::string in_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_char(out, byte_alphabet()[static_cast<uint8_t>(byte)]);
  return out;
}

}  // namespace headwise::text
