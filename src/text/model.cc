// What all models share: words in parts, a cache of short ones, the unknown token.
#include "text/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "headwise/core/error.h"

namespace headwise::text {

bool WordCache::find(std::string_view word, uint64_t hash, uint32_t begin,
                     std::vector<ModelToken>& out) const {
  const Entry& entry = entries_[hash % kEntries];
  if (entry.hash != hash || entry.size != word.size() ||
      std::memcmp(entry.word, word.data(), word.size()) != 0) {
    return false;
  }
  uint32_t from = begin;
  for (size_t i = 0; i < entry.count; ++i) {
    out.push_back({entry.ids[i], from, begin + entry.ends[i]});
    from = begin + entry.ends[i];
  }
  return true;
}

void WordCache::keep(std::string_view word, uint64_t hash, uint32_t begin,
                     const std::vector<ModelToken>& out, size_t first) {
  const size_t count = out.size() - first;
  if (count > kMostTokens) return;
  uint32_t from = begin;
  for (size_t i = first; i < out.size(); ++i) {
    if (out[i].begin != from || out[i].end - begin > UINT8_MAX) return;
    from = out[i].end;
  }
  Entry& entry = entries_[hash % kEntries];
  entry.hash = hash;
  entry.size = static_cast<uint8_t>(word.size());
  entry.count = static_cast<uint8_t>(count);
  std::memcpy(entry.word, word.data(), word.size());
  for (size_t i = 0; i < count; ++i) {
    entry.ids[i] = out[first + i].id;
    entry.ends[i] = static_cast<uint8_t>(out[first + i].end - begin);
  }
}

void Model::tokenize(std::string_view word, ModelScratch& scratch,
                     std::vector<ModelToken>& out) const {
  for (size_t begin = 0; begin < word.size();) {
    const size_t end = part_end(word, begin);
    const std::string_view part = word.substr(begin, end - begin);
    const auto shift = static_cast<uint32_t>(begin);
    begin = end;
    const bool is_short = part.size() <= WordCache::kLongestWord;
    const uint64_t hash = is_short ? hash_bytes(part) : 0;
    if (is_short && scratch.cache.find(part, hash, shift, out)) continue;
    const size_t first = out.size();
    tokenize_part(part, scratch, out);
    for (size_t i = first; i < out.size(); ++i) {
      out[i].begin += shift;
      out[i].end += shift;
    }
    if (is_short) scratch.cache.keep(part, hash, shift, out, first);
  }
}

size_t Model::part_end(std::string_view word, size_t) const { return word.size(); }

ByteTokens::ByteTokens(const Vocabulary& vocabulary) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    ids_[byte] = vocabulary.find(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
}

bool ByteTokens::know(std::string_view text) const {
  return std::all_of(text.begin(), text.end(), [&](char byte) { return id(byte) >= 0; });
}

bool ByteTokens::are_complete() const {
  return std::find(ids_.begin(), ids_.end(), -1) == ids_.end();
}

int32_t UnknownToken::id() const {
  if (id_) return *id_;
  throw Error({.what = "tokenizer: a word is unknown, and so is the token for unknown words",
               .where = where_,
               .got = token_.empty() ? "no unknown token" : token_,
               .expected = "a token of the vocabulary"});
}

}  // namespace headwise::text
