// A model gives the tokens of one word.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/io/json.h"
#include "text/vocabulary.h"

namespace headwise::text {

struct ModelToken {
  int32_t id = 0;
  uint32_t begin = 0;  // in bytes of the word
  uint32_t end = 0;
};

/// Short words and their tokens, each in the one place its hash gives it.
class WordCache {
 public:
  static constexpr size_t kLongestWord = 36;
  static constexpr size_t kMostTokens = 10;

  /// Adds the tokens of the word, counted from `begin`; false if it is not there.
  bool find(std::string_view word, uint64_t hash, uint32_t begin,
            std::vector<ModelToken>& out) const;

  /// Keeps the tokens from `first` on, if the word is short and they follow each other.
  void keep(std::string_view word, uint64_t hash, uint32_t begin,
            const std::vector<ModelToken>& out, size_t first);

 private:
  struct Entry {
    uint64_t hash = 0;
    uint8_t size = 0;  // 0: free
    uint8_t count = 0;
    uint8_t ends[kMostTokens] = {};
    int32_t ids[kMostTokens] = {};
    char word[kLongestWord] = {};
  };
  static constexpr size_t kEntries = size_t{1} << 14;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

/// What one thread needs while it encodes.
struct ModelScratch {
  struct Symbol {
    int32_t id;
    uint32_t size;
    int32_t previous, next;
    uint32_t rank;  // of the merge with the next one
    int32_t merged;
  };
  struct Merge {
    uint32_t rank;
    int32_t position;
  };
  struct PathNode {
    double score;
    uint32_t begin;
    int32_t id;
  };
  WordCache cache;
  std::vector<Symbol> symbols;
  std::vector<Merge> merges;
  std::vector<PathNode> path;
  std::vector<ModelToken> tokens;
  std::string text;
};

class Model {
 public:
  virtual ~Model() = default;

  void tokenize(std::string_view word, ModelScratch& scratch, std::vector<ModelToken>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Whether the token stands for any text, and shows as that text instead of its name.
  virtual bool shows_text(int32_t) const { return false; }
  /// How many tokens the file lists, equal ones counted; ids behind them are free.
  virtual size_t entries() const { return vocabulary_.size(); }

 protected:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  /// Adds the tokens of a part of a word; offsets count from the part's begin.
  virtual void tokenize_part(std::string_view part, ModelScratch& scratch,
                             std::vector<ModelToken>& out) const = 0;

  /// The end of the part that begins at `begin`; parts of a word do not depend on each other.
  virtual size_t part_end(std::string_view word, size_t begin) const;

 private:
  Vocabulary vocabulary_;
};

/// `unk_token` as an id; throws Error when a word needs it and it is not in the vocabulary.
class UnknownToken {
 public:
  UnknownToken() = default;
  UnknownToken(const Vocabulary& vocabulary, std::string token, std::string where)
      : id_(vocabulary.find(token)), token_(std::move(token)), where_(std::move(where)) {}
  int32_t id() const;

 private:
  std::optional<int32_t> id_{};
  std::string token_;
  std::string where_;
};

/// "<0x00>" to "<0xFF>": the tokens that single bytes fall back to.
class ByteTokens {
 public:
  explicit ByteTokens(const Vocabulary& vocabulary);
  int32_t id(char byte) const { return ids_[static_cast<uint8_t>(byte)]; }
  bool know(std::string_view text) const;
  bool are_complete() const;

 private:
  std::array<int32_t, 256> ids_{};  // -1: none
};

std::unique_ptr<const Model> make_word_piece(Vocabulary vocabulary, const std::string& unk_token,
                                             const std::string& prefix, int64_t longest_word,
                                             const std::string& where);
std::unique_ptr<const Model> make_word_level(Vocabulary vocabulary, const std::string& unk_token,
                                             const std::string& where);

/// Tokens and scores in the order of their ids; of equal tokens the last counts.
using UnigramEntries = std::vector<std::pair<std::string, double>>;
Vocabulary vocabulary_of(const UnigramEntries& entries, const std::string& where);
std::unique_ptr<const Model> make_unigram(const UnigramEntries& entries, std::optional<int32_t> unk,
                                          bool byte_fallback, const std::string& where);

struct BpeOptions {
  std::optional<std::string> unk_token{};
  std::string continuing_prefix{};
  std::string word_suffix{};
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  bool raw_bytes = false;  // words come as bytes; the vocabulary is in GPT-2's alphabet, all of it
};

/// Whether every character of GPT-2's alphabet is a token.
bool has_all_bytes(const Vocabulary& vocabulary);

/// Two tokens that become one; its rank is its place in the list.
struct BpeMerge {
  int32_t left = 0;
  int32_t right = 0;
};
using Merges = std::vector<BpeMerge>;

/// The merge number `index`. Throws Error, with `where`, if one is not in the vocabulary.
BpeMerge merge_of(const Vocabulary& vocabulary, std::string_view left, std::string_view right,
                  const std::string& where, size_t index);

std::unique_ptr<const Model> make_bpe(Vocabulary vocabulary, const Merges& merges,
                                      const BpeOptions& options, const std::string& where);

}  // namespace headwise::text
