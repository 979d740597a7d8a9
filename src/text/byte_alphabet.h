// GPT-2's alphabet: a printable character for each of the 256 bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace headwise::text {

/// The code point that stands for each byte.
const std::array<char32_t, 256>& byte_alphabet();

/// The byte that a code point stands for, or -1.
int byte_of(char32_t c);

/// The bytes that a token of the alphabet stands for; nothing (false) if it has other characters.
bool append_bytes(std::string_view token, std::string& out);

/// Bytes in the alphabet.
std::string in_byte_alphabet(std::string_view bytes);

}  // namespace headwise::text
