// Reads alignments of words, and finds the tokens of these.
#include "headwise/text/alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/text/treebank.h"
#include "text/line_reader.h"

namespace headwise {
namespace {

constexpr std::string_view kSpace = " \t";

/// What stands between spaces or tabs.
std::vector<TokenSpan> words_of(std::string_view text) {
  std::vector<TokenSpan> words;
  for (size_t begin = 0;; begin = static_cast<size_t>(words.back().end)) {
    begin = text.find_first_not_of(kSpace, begin);
    if (begin == std::string_view::npos) return words;
    const size_t end = std::min(text.find_first_of(kSpace, begin), text.size());
    words.push_back({static_cast<int64_t>(begin), static_cast<int64_t>(end)});
  }
}

/// "3-4"
std::optional<AlignedWords> parse(std::string_view pair) {
  AlignedWords words;
  const char* const end = pair.data() + pair.size();
  const auto source = std::from_chars(pair.data(), end, words.source);
  if (source.ec != std::errc() || source.ptr == end || *source.ptr != '-') return {};
  const auto target = std::from_chars(source.ptr + 1, end, words.target);
  if (target.ec != std::errc() || target.ptr != end) return {};
  const bool negative = pair.starts_with('-') || source.ptr[1] == '-';  // also -0
  return negative ? std::nullopt : std::optional(words);
}

TokenSpan tokens_of(const std::vector<TokenSpan>& words, int64_t word, const char* side,
                    const std::string& where) {
  if (word < std::ssize(words)) return words[word];
  throw Error({.what = fmt::format("alignment: the {} has no such word", side),
               .where = where,
               .got = fmt::format("word {}", word),
               .expected = fmt::format("below {}, as many as it has", words.size()),
               .hint = "words are what stands between spaces or tabs, counted from 0"});
}

}  // namespace

std::vector<std::vector<AlignedWords>> read_alignments(const std::filesystem::path& file) {
  LineReader lines(file);
  std::vector<std::vector<AlignedWords>> alignments;
  for (std::string_view line; lines.next(line);) {
    std::vector<AlignedWords>& words = alignments.emplace_back();
    for (const TokenSpan& pair : words_of(line)) {
      const std::string_view text = line.substr(pair.begin, pair.end - pair.begin);
      const std::optional<AlignedWords> parsed = parse(text);
      if (!parsed) {
        throw Error({.what = "alignment: no pair of words",
                     .where = lines.where(),
                     .got = quote(text),
                     .expected = "such as 3-4: a word of the source, and one of the target"});
      }
      words.push_back(*parsed);
    }
  }
  return alignments;
}

std::vector<std::vector<int32_t>> aligned_tokens(std::span<const AlignedWords> words,
                                                 const EncodedText& source,
                                                 const EncodedText& target,
                                                 const std::string& where) {
  const auto sources = tokens_of_spans(source.encoding, words_of(source.text));
  const auto targets = tokens_of_spans(target.encoding, words_of(target.text));
  std::vector<std::vector<int32_t>> aligned(target.encoding.ids.size());
  for (const AlignedWords& pair : words) {
    const TokenSpan from = tokens_of(targets, pair.target, "target", where);
    const TokenSpan to = tokens_of(sources, pair.source, "source", where);
    for (int64_t row = from.begin; row < from.end; ++row) {
      for (int64_t key = to.begin; key < to.end; ++key) {
        aligned[row].push_back(static_cast<int32_t>(key));
      }
    }
  }
  for (std::vector<int32_t>& keys : aligned) {
    std::ranges::sort(keys);
    keys.erase(std::ranges::unique(keys).begin(), keys.end());
  }
  return aligned;
}

}  // namespace headwise
