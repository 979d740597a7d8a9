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

void check_token_length(std::string_view token, const std::string& where) {
  constexpr size_t kLongest = 4096;
  if (token.size() <= kLongest) return;
  throw Error({.what = "tokenizer: a token is too long",
               .where = where,
               .got = std::to_string(token.size()) + " bytes",
               .expected = "at most " + std::to_string(kLongest)});
}

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  arena_.reserve(bytes);
  begins_.reserve(tokens + 1);
  ids_.reserve(tokens);
  if (tokens * 2 > slots_.size()) resize_slots(std::bit_ceil(tokens * 2 + 16));
}

void Vocabulary::grow() { resize_slots(std::max<size_t>(64, slots_.size() * 2)); }

void Vocabulary::resize_slots(size_t slots) {
  slots_.assign(slots, Slot{});
  for (size_t i = 0; i < size(); ++i) {
    const uint64_t hash = hash_bytes(token_at(i));
    slots_[place(token_at(i), hash)] = {static_cast<uint32_t>(hash >> 32),
                                        static_cast<uint32_t>(i + 1)};
  }
}

bool Vocabulary::add(std::string_view token, int32_t id) {
  if ((size() + 1) * 2 > slots_.size()) grow();
  const uint64_t hash = hash_bytes(token);
  Slot& slot = slots_[place(token, hash)];
  if (slot.index != 0) return false;
  arena_.append(token);
  begins_.push_back(static_cast<uint32_t>(arena_.size()));
  ids_.push_back(id);
  slot = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(size())};
  largest_id_ = std::max(largest_id_, id);
  return true;
}

size_t Vocabulary::place(std::string_view token, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  size_t at = hash & mask;
  while (slots_[at].index != 0 &&
         (slots_[at].tag != tag || token_at(slots_[at].index - 1) != token)) {
    at = (at + 1) & mask;
  }
  return at;
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[place(token, hash_bytes(token))];
  return slot.index == 0 ? std::nullopt : std::optional(ids_[slot.index - 1]);
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
