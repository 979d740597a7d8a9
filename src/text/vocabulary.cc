// Tokens and their ids: open addressing with linear probing, at most half full.
#include "text/vocabulary.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "headwise/core/error.h"

namespace headwise::text {

uint64_t hash_bytes(std::string_view bytes) {
  constexpr uint64_t kMix = 0x9E3779B97F4A7C15u;
  uint64_t hash = bytes.size() * kMix;
  const auto mix = [&](uint64_t word) {
    const auto product = static_cast<unsigned __int128>(hash ^ word) * kMix;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    mix(word);
  }
  if (at < bytes.size()) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, bytes.size() - at);
    mix(word);
  }
  return hash;
}

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  arena_.reserve(bytes);
  begins_.reserve(tokens + 1);
  ids_.reserve(tokens);
  if (tokens * 2 > slots_.size()) {
    slots_.assign(std::bit_ceil(tokens * 2 + 16), Slot{});
    for (size_t i = 0; i < size(); ++i) place(i, hash_bytes(token_at(i)));
  }
}

void Vocabulary::place(size_t index, uint64_t hash) {
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  while (slots_[at].index != 0) at = (at + 1) & mask;
  slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(index + 1)};
}

void Vocabulary::grow() {
  slots_.assign(std::max<size_t>(64, slots_.size() * 2), Slot{});
  for (size_t i = 0; i < size(); ++i) place(i, hash_bytes(token_at(i)));
}

bool Vocabulary::add(std::string_view token, int32_t id) {
  if (find(token)) return false;
  if ((size() + 1) * 2 > slots_.size()) grow();
  arena_.append(token);
  begins_.push_back(static_cast<uint32_t>(arena_.size()));
  ids_.push_back(id);
  place(size() - 1, hash_bytes(token));
  largest_id_ = std::max(largest_id_, id);
  return true;
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const uint64_t hash = hash_bytes(token);
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].index != 0; at = (at + 1) & mask) {
    if (slots_[at].tag != static_cast<uint32_t>(hash >> 32)) continue;
    const size_t index = slots_[at].index - 1;
    if (token_at(index) == token) return ids_[index];
  }
  return std::nullopt;
}

void Vocabulary::index_ids(const std::string& where) {
  const size_t most = size() * 16 + (size_t{1} << 20);
  if (largest_id_ >= 0 && static_cast<size_t>(largest_id_) > most) {
    throw Error(
        {.what = "tokenizer: an id is far beyond the number of tokens",
         .where = where,
         .got = std::to_string(largest_id_) + " among " + std::to_string(size()) + " tokens",
         .expected = "ids without wide gaps"});
  }
  by_id_.assign(static_cast<size_t>(largest_id_ + 1), 0);
  for (size_t i = 0; i < size(); ++i) {
    by_id_[static_cast<size_t>(ids_[i])] = static_cast<uint32_t>(i + 1);
  }
}

bool Vocabulary::has(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < by_id_.size() && by_id_[static_cast<size_t>(id)] != 0;
}

std::string_view Vocabulary::token(int32_t id) const {
  return has(id) ? token_at(by_id_[static_cast<size_t>(id)] - 1) : std::string_view();
}

}  // namespace headwise::text
