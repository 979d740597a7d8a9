// Tokens that are found in the text itself, before and after it is normalized.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/trie.h"
#include "text/vocabulary.h"

namespace headwise::text {

struct AddedToken {
  std::string content{};
  bool single_word = false;  // only between characters that belong to no word
  bool lstrip = false;       // takes the space before it
  bool rstrip = false;       // takes the space behind it
  bool normalized = false;   // is found in the normalized text
  bool special = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// A token gets the id it has in the vocabulary, else the next one from `free` on.
  AddedTokens(const std::vector<AddedToken>& tokens, const Vocabulary& vocabulary, size_t free,
              const Normalizer* normalizer);

  enum class Where { kSource, kNormalized };
  void split(SplitText& text, Where where) const;

  std::optional<int32_t> find(std::string_view token) const;
  const AddedToken* token(int32_t id) const;
  /// The token as it stands in a normalized text.
  const std::string& normalized(int32_t id) const;
  int32_t largest_id() const { return tokens_.empty() ? -1 : tokens_.rbegin()->first; }

 private:
  struct Matcher {
    Trie trie;
    bool starts[256] = {};  // bytes that a token starts with
  };
  void split_piece(const Matcher& matcher, const SplitText& text, const Piece& piece,
                   std::vector<Piece>& out) const;
  Matcher make_matcher(bool normalized) const;

  struct Entry {
    AddedToken token;
    std::string normalized;
  };
  std::map<int32_t, Entry> tokens_;
  std::unordered_map<std::string, int32_t> ids_;
  Matcher source_;
  Matcher normalized_;
};

}  // namespace headwise::text
