// A sentence of the built-in probes in the making, and the text and tree that it becomes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "headwise/text/treebank.h"

namespace headwise {

/// What a word is to the item that it stands in.
enum class ProbeMark { none, right_name, wrong_name, pronoun, rare };

/// A word with the words that depend on it, in their order.
struct Phrase {
  std::string form{}, upos{}, relation{};
  std::vector<Phrase> before{}, after{};
  bool joined = false;  // to the word before it, without a space
  ProbeMark mark = ProbeMark::none;
};

/// Words that depend on nothing yet.
Phrase punctuation(std::string form);
Phrase dependent(std::string form, std::string upos, std::string relation);

struct WrittenPhrase {
  TreeSentence sentence{};
  std::map<ProbeMark, TokenSpan> marks{};  // bytes of its text
};

/// Puts the words in order, with spaces and a capital letter. `before_vowel` has other forms of
/// words: "an" for "a".
WrittenPhrase write_phrase(const Phrase& root,
                           const std::map<std::string, std::string>& before_vowel);

}  // namespace headwise
