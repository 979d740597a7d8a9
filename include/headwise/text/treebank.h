// Sentences with their syntax trees, and pronouns with their antecedents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headwise/text/tokenizer.h"

namespace headwise {

/// A syntactic word. Those of a multi-word token share its characters: whose form is found there,
/// in order, has this and what follows ("do" and "n't" of "don't"); others have what is left
/// between those ("del" for "di" in "della"), or the whole token if nothing is.
struct TreeWord {
  std::string form{};
  std::string upos{};      // "NOUN"; "_" if unknown
  std::string relation{};  // "nsubj", "aux:pass"
  int64_t head = -1;       // index of its syntactic head; -1: the root
  TokenSpan bytes{};       // where in the sentence's text
  bool operator==(const TreeWord&) const = default;
};

struct TreeSentence {
  std::string id{};    // its sent_id, or "sentence 3"
  std::string text{};  // as written
  std::vector<TreeWord> words{};
  bool operator==(const TreeSentence&) const = default;
};

/// A pronoun and two names, exactly one of which it stands for.
struct CoreferenceItem {
  std::string id{};
  std::string text{};
  TokenSpan pronoun{};  // bytes of the text
  TokenSpan right{}, wrong{};
  bool operator==(const CoreferenceItem&) const = default;
};

/// A CoNLL-U file, plain or gzip. Empty nodes are left out. Throws Error, with the line, for
/// anything that is no tree of words, or whose words are not those of its "# text", and for a file
/// without sentences.
std::vector<TreeSentence> read_conllu(const std::filesystem::path& file);

/// A file of the GAP data set (tab-separated, with its header): the items for which exactly one of
/// A and B is the antecedent. Throws Error if there is none.
std::vector<CoreferenceItem> read_gap(const std::filesystem::path& file);

/// Pronouns of a CoNLL-U file with `Entity=` annotations (CorefUD) that have an antecedent before
/// them, and a mention of another entity of the same type: of both the nearest that is no pronoun.
/// The text goes from the sentence of the farther one to that of the pronoun, at most 4 sentences
/// and 2,000 bytes.
std::vector<CoreferenceItem> read_entities(const std::filesystem::path& file);

/// CoNLL-U and GAP's columns.
std::string to_conllu(const std::vector<TreeSentence>& sentences);
std::string to_gap(const std::vector<CoreferenceItem>& items);

/// The tokens [begin, end) of each span of an encoded text; empty if no token lies in it. Tokens
/// that the template put belong to none; a token that touches two spans belongs to the first.
std::vector<TokenSpan> tokens_of_spans(const Encoding& encoding,
                                       const std::vector<TokenSpan>& bytes);

}  // namespace headwise
