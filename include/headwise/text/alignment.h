// Which words of a text and of its translation belong together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/text/tokenizer.h"

namespace headwise {

/// A word of the source and one of the target, each counted from 0.
struct AlignedWords {
  int64_t source = 0, target = 0;
  bool operator==(const AlignedWords&) const = default;
};

/// The alignments of a file, plain or gzip: a line per pair of texts, "0-0 1-2 1-3", the word of
/// the source first (Pharaoh's form). An empty line aligns nothing. Throws Error, with the line,
/// for anything else.
std::vector<std::vector<AlignedWords>> read_alignments(const std::filesystem::path& file);

/// A text as it was written, and its tokens.
struct EncodedText {
  std::string_view text{};
  const Encoding& encoding;
};

/// For every token of the target those of the source that it is aligned with, ascending. Words are
/// what stands between spaces; a token belongs to the first word that it touches. Throws Error for
/// words that a text does not have; `where` names the line.
std::vector<std::vector<int32_t>> aligned_tokens(std::span<const AlignedWords> words,
                                                 const EncodedText& source,
                                                 const EncodedText& target,
                                                 const std::string& where);

}  // namespace headwise
