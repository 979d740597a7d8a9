// WordPiece: the longest piece that fits, again and again; and whole words only.
#include <utility>

#include "text/model.h"
#include "text/trie.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

class WordPiece : public Model {
 public:
  WordPiece(Vocabulary words, const std::string& unk_token, const std::string& prefix,
            int64_t longest_word, const std::string& where)
      : Model(std::move(words)),
        unknown_(vocabulary(), unk_token, where),
        longest_word_(static_cast<size_t>(longest_word)) {
    std::vector<std::pair<std::string_view, int32_t>> first, later;
    for (size_t i = 0; i < vocabulary().size(); ++i) {
      const std::string_view token = vocabulary().token_at(i);
      const int32_t id = vocabulary().id_at(i);
      if (!token.empty()) first.emplace_back(token, id);
      if (token.size() > prefix.size() && token.starts_with(prefix)) {
        later.emplace_back(token.substr(prefix.size()), id);
      }
    }
    first_ = Trie(std::move(first));
    later_ = Trie(std::move(later));
  }

 protected:
  void tokenize_part(std::string_view word, ModelScratch&,
                     std::vector<ModelToken>& out) const override {
    const size_t before = out.size();
    const auto size = static_cast<uint32_t>(word.size());
    if (is_too_long(word)) {
      out.push_back({unknown_.id(), 0, size});
      return;
    }
    for (uint32_t at = 0; at < size;) {
      const Trie::Longest piece = (at == 0 ? first_ : later_).longest_prefix(word.substr(at));
      if (piece.size == 0) {
        out.resize(before);
        out.push_back({unknown_.id(), 0, size});
        return;
      }
      const uint32_t end = at + static_cast<uint32_t>(piece.size);
      out.push_back({piece.value, at, end});
      at = end;
    }
  }

 private:
  bool is_too_long(std::string_view word) const {
    if (word.size() <= longest_word_) return false;
    size_t characters = 0;
    for (const char byte : word) characters += !is_continuation(byte);
    return characters > longest_word_;
  }

  UnknownToken unknown_;
  size_t longest_word_;
  Trie first_;
  Trie later_;
};

class WordLevel : public Model {
 public:
  WordLevel(Vocabulary words, const std::string& unk_token, const std::string& where)
      : Model(std::move(words)), unknown_(vocabulary(), unk_token, where) {}

 protected:
  void tokenize_part(std::string_view word, ModelScratch&,
                     std::vector<ModelToken>& out) const override {
    const auto id = vocabulary().find(word);
    out.push_back({id ? *id : unknown_.id(), 0, static_cast<uint32_t>(word.size())});
  }

 private:
  UnknownToken unknown_;
};

}  // namespace

std::unique_ptr<const Model> make_word_piece(Vocabulary vocabulary, const std::string& unk_token,
                                             const std::string& prefix, int64_t longest_word,
                                             const std::string& where) {
  return std::make_unique<WordPiece>(std::move(vocabulary), unk_token, prefix, longest_word, where);
}

std::unique_ptr<const Model> make_word_level(Vocabulary vocabulary, const std::string& unk_token,
                                             const std::string& where) {
  return std::make_unique<WordLevel>(std::move(vocabulary), unk_token, where);
}

}  // namespace headwise::text
