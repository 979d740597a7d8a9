// Sentences of a CoNLL-U file, one at a time: their words, and where these are in the text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/text/tokenizer.h"
#include "text/line_reader.h"

namespace headwise {

struct ConlluWord {
  std::string form{}, upos{}, relation{};
  std::optional<int64_t> head{};  // as in the file: from 1, 0 for the root; nothing for "_"
  TokenSpan bytes{};              // of the sentence's text
  int64_t line = 0;
};

/// What `Entity=` says at a word or an empty node: mentions that open here begin with word `first`,
/// those that close here end with word `last`. At an empty node these are the words around it.
struct EntityBrackets {
  std::string text{};
  int64_t first = 0, last = 0;
  int64_t line = 0;
};

struct ConlluSentence {
  std::string id{};    // its sent_id, or "sentence 3"
  std::string text{};  // as its comment says, or of its words
  bool begins_document = false;
  std::vector<ConlluWord> words{};
  std::vector<EntityBrackets> entities{};
};

/// Takes the words as they are, whether or not they make up a tree.
class ConlluReader {
 public:
  explicit ConlluReader(const std::filesystem::path& file) : lines_(file) {}

  /// False behind the last one. Throws Error, with the line, for what is no CoNLL-U.
  bool next(ConlluSentence& sentence);

  /// What parts the brackets of entities have, by the last "# global.Entity"; empty: none so far.
  const std::string& entity_parts() const { return entity_parts_; }

  std::string where(int64_t line) const;

 private:
  /// What stands in the text: a word, or several.
  struct Token {
    std::string form{};
    int64_t first = 0, end = 0;  // its words
    bool space_after = true;
    int64_t line = 0;
  };
  struct Draft;  // of a sentence

  void read_comment(std::string_view line, Draft& draft);
  void read_line(std::string_view line, Draft& draft) const;
  void finish(Draft& draft) const;
  void place(const Draft& draft, ConlluSentence& sentence) const;
  [[noreturn]] void refuse(int64_t line, const char* what, std::string got, std::string expected,
                           const char* hint = "") const;

  LineReader lines_;
  std::string entity_parts_;
  int64_t sentences_ = 0;
  bool begins_document_ = true;  // the next sentence
};

}  // namespace headwise
