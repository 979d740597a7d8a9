// Byte pair encoding: neighbours merge in the order of the ranks until no merge is left.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "text/byte_alphabet.h"
#include "text/model.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

constexpr uint32_t kNoRank = UINT32_MAX;

/// From a pair of ids to the rank of their merge and the id it gives.
class MergeTable {
 public:
  struct Entry {
    uint64_t pair = 0;
    uint32_t rank = kNoRank;  // kNoRank: free
    int32_t merged = 0;
  };

  explicit MergeTable(size_t merges) : entries_(std::bit_ceil(merges * 2 + 2)) {}

  void set(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
    Entry& entry = entries_[place(pair_of(left, right))];
    entry = {pair_of(left, right), rank, merged};
  }

  const Entry& find(int32_t left, int32_t right) const {
    return entries_[place(pair_of(left, right))];
  }

 private:
  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  // Where the pair is, or the free place where it would be.
  size_t place(uint64_t pair) const {
    const size_t mask = entries_.size() - 1;
    size_t at = (pair * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (entries_[at].rank != kNoRank && entries_[at].pair != pair) at = (at + 1) & mask;
    return at;
  }
  std::vector<Entry> entries_;
};

int32_t known(const Vocabulary& vocabulary, std::string_view token, const std::string& where,
              size_t merge) {
  if (const auto id = vocabulary.find(token)) return *id;
  throw Error({.what = "tokenizer: a merge needs a token that is not there",
               .where = fmt::format("{}: merges[{}]", where, merge),
               .got = quote(token),
               .expected = "tokens of the vocabulary"});
}

class Bpe : public Model {
 public:
  using Symbol = ModelScratch::Symbol;
  using Merge = ModelScratch::Merge;

  Bpe(Vocabulary words, const Merges& merges, const BpeOptions& options, const std::string& where)
      : Model(std::move(words)),
        options_(options),
        table_(merges.size()),
        byte_tokens_(vocabulary()) {
    add_merges(merges, where);
    if (options.unk_token) unknown_ = UnknownToken(vocabulary(), *options.unk_token, where);
    if (options.raw_bytes) read_bytes();
    words_apart_ = !options.raw_bytes && !options.ignore_merges && can_split_words(merges);
  }

 protected:
  size_t part_end(std::string_view word, size_t begin) const override {
    if (!words_apart_) return word.size();
    size_t at = begin;
    while (word.substr(at).starts_with(kMetaspace)) at += kMetaspace.size();
    at = word.find(kMetaspace, at);
    return std::min(at, word.size());
  }

  void tokenize_part(std::string_view word, ModelScratch& scratch,
                     std::vector<ModelToken>& out) const override {
    if (options_.ignore_merges) {
      const auto id = (options_.raw_bytes ? bytes_ : vocabulary()).find(word);
      if (id) {
        out.push_back({*id, 0, static_cast<uint32_t>(word.size())});
        return;
      }
    }
    scratch.symbols.clear();
    if (options_.raw_bytes) {
      add_bytes(word, scratch.symbols);
    } else {
      add_characters(word, scratch);
    }
    merge(scratch);
    uint32_t begin = 0;
    for (const Symbol& symbol : scratch.symbols) {
      if (symbol.size == 0) continue;
      out.push_back({symbol.id, begin, begin + symbol.size});
      begin += symbol.size;
    }
  }

 private:
  void add_merges(const Merges& merges, const std::string& where) {
    std::string joined;
    for (size_t i = 0; i < merges.size(); ++i) {
      const std::string_view right = vocabulary().token(merges[i].right);
      joined.assign(vocabulary().token(merges[i].left));
      joined += right.substr(std::min(options_.continuing_prefix.size(), right.size()));
      const int32_t merged = known(vocabulary(), joined, where, i);
      table_.set(merges[i].left, merges[i].right, static_cast<uint32_t>(i), merged);
    }
  }

  // The vocabulary in bytes; tokens outside of the alphabet match nothing.
  void read_bytes() {
    std::string bytes;
    for (size_t i = 0; i < vocabulary().size(); ++i) {
      bytes.clear();
      if (!append_bytes(vocabulary().token_at(i), bytes)) continue;
      if (options_.ignore_merges) bytes_.add(bytes, vocabulary().id_at(i));
      if (bytes.size() == 1) raw_ids_[static_cast<uint8_t>(bytes[0])] = vocabulary().id_at(i);
    }
  }

  // No merge joins the end of a word with the mark of the next one, and no character is lost.
  bool can_split_words(const Merges& merges) const {
    const bool bytes = options_.byte_fallback && byte_tokens_.are_complete();
    const bool unk = !options_.byte_fallback && options_.unk_token &&
                     vocabulary().find(*options_.unk_token).has_value();
    if ((!bytes && !unk) || !options_.continuing_prefix.empty() || !options_.word_suffix.empty() ||
        !vocabulary().find(kMetaspace)) {
      return false;
    }
    return std::none_of(merges.begin(), merges.end(), [&](const BpeMerge& merge) {
      return vocabulary().token(merge.right).starts_with(kMetaspace) &&
             !vocabulary().token(merge.left).ends_with(kMetaspace);
    });
  }

  static void add(std::vector<Symbol>& symbols, int32_t id, uint32_t size) {
    symbols.push_back({id, size, 0, 0, kNoRank, 0});
  }

  void add_bytes(std::string_view word, std::vector<Symbol>& symbols) const {
    for (const char byte : word) add(symbols, raw_ids_[static_cast<uint8_t>(byte)], 1);
  }

  void add_characters(std::string_view word, ModelScratch& scratch) const {
    std::vector<Symbol>& symbols = scratch.symbols;
    uint32_t unknown = 0;
    for (size_t at = 0; at < word.size();) {
      const size_t begin = at;
      at += char_size(word[at]);
      const auto size = static_cast<uint32_t>(at - begin);
      const std::string_view c = decorated(word, begin, at, scratch.text);
      if (const auto id = vocabulary().find(c)) {
        if (unknown > 0) add(symbols, unknown_.id(), unknown);
        unknown = 0;
        add(symbols, *id, size);
      } else if (options_.byte_fallback && byte_tokens_.know(c)) {
        for (const char byte : c) add(symbols, byte_tokens_.id(byte), 1);
      } else if (options_.unk_token) {
        if (unknown > 0 && !options_.fuse_unk) {
          add(symbols, unknown_.id(), unknown);
          unknown = 0;
        }
        unknown += size;
      }
    }
    if (unknown > 0) add(symbols, unknown_.id(), unknown);
  }

  // The character as the vocabulary has it: with the prefix inside of a word, the suffix at its
  // end.
  std::string_view decorated(std::string_view word, size_t begin, size_t end,
                             std::string& buffer) const {
    const bool prefix = begin > 0 && !options_.continuing_prefix.empty();
    const bool suffix = end == word.size() && !options_.word_suffix.empty();
    if (!prefix && !suffix) return word.substr(begin, end - begin);
    buffer.clear();
    if (prefix) buffer += options_.continuing_prefix;
    buffer += word.substr(begin, end - begin);
    if (suffix) buffer += options_.word_suffix;
    return buffer;
  }

  void rank(Symbol& left, const Symbol& right) const {
    const MergeTable::Entry& entry = table_.find(left.id, right.id);
    left.rank = entry.rank;
    left.merged = entry.merged;
  }

  void merge(ModelScratch& scratch) const {
    auto& symbols = scratch.symbols;
    if (symbols.size() < 2) return;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) rank(symbols[i], symbols[i + 1]);
    if (symbols.size() <= kShortWord) {
      merge_short(symbols);
    } else {
      merge_long(scratch);
    }
  }

  void merge_short(std::vector<Symbol>& symbols) const {
    for (;;) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < symbols.size(); ++i) {
        if (symbols[i].rank < symbols[best].rank) best = i;
      }
      if (symbols.size() < 2 || symbols[best].rank == kNoRank) return;
      symbols[best].id = symbols[best].merged;
      symbols[best].size += symbols[best + 1].size;
      symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
      symbols[best].rank = kNoRank;
      if (best + 1 < symbols.size()) rank(symbols[best], symbols[best + 1]);
      if (best > 0) rank(symbols[best - 1], symbols[best]);
    }
  }

  // A heap of all merges that are possible, some of them no longer: those have another rank now.
  void merge_long(ModelScratch& scratch) const {
    auto& symbols = scratch.symbols;
    auto& heap = scratch.merges;
    const auto later = [](const Merge& a, const Merge& b) {
      return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
    };
    heap.clear();
    const auto count = static_cast<int32_t>(symbols.size());
    for (int32_t i = 0; i < count; ++i) {
      Symbol& symbol = symbols[static_cast<size_t>(i)];
      symbol.previous = i - 1;
      symbol.next = i + 1 < count ? i + 1 : -1;
      if (symbol.rank != kNoRank) heap.push_back({symbol.rank, i});
    }
    std::make_heap(heap.begin(), heap.end(), later);
    const auto offer = [&](int32_t position) {
      Symbol& left = symbols[static_cast<size_t>(position)];
      left.rank = kNoRank;
      if (left.next < 0) return;
      rank(left, symbols[static_cast<size_t>(left.next)]);
      if (left.rank == kNoRank) return;
      heap.push_back({left.rank, position});
      std::push_heap(heap.begin(), heap.end(), later);
    };
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), later);
      const Merge top = heap.back();
      heap.pop_back();
      Symbol& left = symbols[static_cast<size_t>(top.position)];
      if (left.rank != top.rank) continue;
      Symbol& right = symbols[static_cast<size_t>(left.next)];
      left.id = left.merged;
      left.size += right.size;
      left.next = right.next;
      right.size = 0;
      right.rank = kNoRank;
      if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = top.position;
      if (left.previous >= 0) offer(left.previous);
      offer(top.position);
    }
  }

  static constexpr size_t kShortWord = 32;
  BpeOptions options_;
  MergeTable table_;
  UnknownToken unknown_;
  ByteTokens byte_tokens_;
  std::array<int32_t, 256> raw_ids_{};  // of the bytes themselves
  Vocabulary bytes_;
  bool words_apart_ = false;
};

}  // namespace

bool has_all_bytes(const Vocabulary& vocabulary) {
  const auto& alphabet = byte_alphabet();
  return std::all_of(alphabet.begin(), alphabet.end(), [&](char32_t c) {
    std::string token;
    append_char(token, c);
    return vocabulary.find(token).has_value();
  });
}

BpeMerge merge_of(const Vocabulary& vocabulary, std::string_view left, std::string_view right,
                  const std::string& where, size_t index) {
  return {known(vocabulary, left, where, index), known(vocabulary, right, where, index)};
}

std::unique_ptr<const Model> make_bpe(Vocabulary vocabulary, const Merges& merges,
                                      const BpeOptions& options, const std::string& where) {
  return std::make_unique<Bpe>(std::move(vocabulary), merges, options, where);
}

}  // namespace headwise::text
