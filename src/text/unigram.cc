// Unigram: the most probable way to put a word together, found by Viterbi's algorithm.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "headwise/core/error.h"
#include "text/model.h"
#include "text/trie.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

constexpr double kUnknownPenalty = 10;
constexpr uint32_t kNowhere = UINT32_MAX;

class Unigram : public Model {
 public:
  Unigram(const UnigramEntries& entries, std::optional<int32_t> unk, bool byte_fallback,
          const std::string& where)
      : Model(vocabulary_of(entries, where)),
        byte_tokens_(vocabulary()),
        unk_(unk),
        byte_fallback_(byte_fallback),
        where_(where) {
    std::vector<std::pair<std::string_view, int32_t>> nodes;
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < entries.size(); ++i) {
      scores_.push_back(entries[i].second);
      least = std::min(least, entries[i].second);
      check_token_length(entries[i].first, where);
      if (!entries[i].first.empty()) {
        nodes.emplace_back(entries[i].first, static_cast<int32_t>(i));
      }
    }
    trie_ = Trie(std::move(nodes));
    unknown_score_ = least - kUnknownPenalty;
  }

  size_t entries() const override { return scores_.size(); }
  bool shows_text(int32_t id) const override { return unk_ == id; }

 protected:
  void tokenize_part(std::string_view word, ModelScratch& scratch,
                     std::vector<ModelToken>& out) const override {
    find_best_path(word, scratch.path);
    // Backwards; unknown characters that follow each other become one token.
    std::vector<ModelToken>& tokens = scratch.tokens;
    tokens.clear();
    for (auto end = static_cast<uint32_t>(word.size()); end > 0;) {
      const ModelScratch::PathNode& node = scratch.path[end];
      if (!tokens.empty() && unk_ && node.id == *unk_ && tokens.back().id == *unk_) {
        tokens.back().begin = node.begin;
      } else {
        tokens.push_back({node.id, node.begin, end});
      }
      end = node.begin;
    }
    for (size_t i = tokens.size(); i-- > 0;) {
      if (unk_ && tokens[i].id == *unk_) {
        put_unknown(word, tokens[i], out);
      } else {
        out.push_back(tokens[i]);
      }
    }
  }

 private:
  void find_best_path(std::string_view word, std::vector<ModelScratch::PathNode>& path) const {
    path.assign(word.size() + 1, {0, kNowhere, 0});
    const auto reach = [&](size_t end, double score, size_t begin, int32_t id) {
      ModelScratch::PathNode& node = path[end];
      if (node.begin == kNowhere || score > node.score) {
        node = {score, static_cast<uint32_t>(begin), id};
      }
    };
    for (size_t at = 0; at < word.size();) {
      const size_t size = char_size(word[at]);
      const double score = path[at].score;
      bool has_char = false;
      trie_.prefixes(word.substr(at), [&](size_t length, int32_t id) {
        reach(at + length, score + scores_[static_cast<size_t>(id)], at, id);
        has_char |= length == size;
      });
      if (!has_char) {
        const ModelScratch::PathNode& node = path[at + size];
        if (!unk_ && (node.begin == kNowhere || unknown_score_ + score > node.score)) {
          refuse_unknown();
        }
        reach(at + size, unknown_score_ + score, at, unk_.value_or(0));
      }
      at += size;
    }
  }

  [[noreturn]] void refuse_unknown() const {
    throw Error({.what = "tokenizer: a character is unknown, and there is no token for that",
                 .where = where_,
                 .got = "unk_id null",
                 .expected = "the id of a token"});
  }

  // What was put together from unknown characters may be a token after all; else its bytes are.
  void put_unknown(std::string_view word, ModelToken token, std::vector<ModelToken>& out) const {
    const std::string_view text = word.substr(token.begin, token.end - token.begin);
    if (const auto id = vocabulary().find(text)) {
      out.push_back({*id, token.begin, token.end});
    } else if (byte_fallback_ && byte_tokens_.know(text)) {
      for (const char byte : text) {
        out.push_back({byte_tokens_.id(byte), token.begin, token.end});
      }
    } else {
      out.push_back(token);
    }
  }

  ByteTokens byte_tokens_;
  std::vector<double> scores_;
  Trie trie_;
  std::optional<int32_t> unk_;
  double unknown_score_ = 0;
  bool byte_fallback_;
  std::string where_;
};

}  // namespace

Vocabulary vocabulary_of(const UnigramEntries& entries, const std::string& where) {
  Vocabulary vocabulary;
  size_t bytes = 0;
  for (const auto& [token, score] : entries) bytes += token.size();
  vocabulary.reserve(entries.size(), bytes);
  for (size_t i = entries.size(); i-- > 0;) {  // of equal ones the last counts
    vocabulary.add(entries[i].first, static_cast<int32_t>(i));
  }
  vocabulary.index_ids(where);
  return vocabulary;
}

std::unique_ptr<const Model> make_unigram(const UnigramEntries& entries, std::optional<int32_t> unk,
                                          bool byte_fallback, const std::string& where) {
  if (unk && static_cast<size_t>(*unk) >= entries.size()) {
    throw Error({.what = "tokenizer: unk_id is no token",
                 .where = where,
                 .got = std::to_string(*unk),
                 .expected = fmt::format("below {}, the number of tokens", entries.size())});
  }
  return std::make_unique<Unigram>(entries, unk, byte_fallback, where);
}

}  // namespace headwise::text
