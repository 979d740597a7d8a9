// Patterns of tokenizer files: strings, and the regular expressions in use, matched by hand.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/json.h"

namespace headwise::text {

struct Match {
  uint32_t begin = 0;
  uint32_t end = 0;
};

class Pattern {
 public:
  virtual ~Pattern() = default;
  /// All matches from left to right, none empty.
  virtual void find(std::string_view text, std::vector<Match>& matches) const = 0;
};

/// The text of a field that takes one character. Throws Error for any other.
std::string single_char(const JsonObject& part, const char* field);

/// Qwen 2's expression for words, which folders without a tokenizer.json leave to the reader.
inline constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// The pattern {"String": …} or {"Regex": …} in a field. Throws Error for one that is not known,
/// with a list of those that are.
std::unique_ptr<const Pattern> make_pattern(const JsonObject& part, const char* field);

std::unique_ptr<const Pattern> make_string_pattern(std::string text);

/// GPT-2's expression for words.
std::unique_ptr<const Pattern> make_gpt2_pattern();

}  // namespace headwise::text
