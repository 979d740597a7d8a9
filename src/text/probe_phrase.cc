// Puts the words of a phrase in order.
#include "text/probe_phrase.h"

#include <string_view>
#include <utility>

#include "text/unicode.h"

namespace headwise {
namespace {

struct Placed {
  const Phrase* phrase = nullptr;
  int64_t head = -1;
};

/// Its words behind those that are there; gives its own index.
int64_t place(const Phrase& phrase, std::vector<Placed>& words) {
  std::vector<int64_t> dependents;
  for (const Phrase& one : phrase.before) dependents.push_back(place(one, words));
  const int64_t index = std::ssize(words);
  words.push_back({.phrase = &phrase});
  for (const Phrase& one : phrase.after) dependents.push_back(place(one, words));
  for (const int64_t one : dependents) words[one].head = index;
  return index;
}

bool begins_with_vowel(std::string_view word) {
  size_t at = 0;
  char32_t letters[text::kLongestDecomposition];
  text::decompose(text::lower_case(text::next_char(word, at)).first, false, letters);
  return std::u32string_view(U"aeiou").find(letters[0]) != std::u32string_view::npos;
}

std::string capitalised(std::string_view word) {
  size_t at = 0;
  std::string result;
  text::append_char(result, text::upper_case(text::next_char(word, at)));
  return result.append(word.substr(at));
}

}  // namespace

Phrase punctuation(std::string form) {
  return {.form = std::move(form), .upos = "PUNCT", .relation = "punct", .joined = true};
}

Phrase dependent(std::string form, std::string upos, std::string relation) {
  return {.form = std::move(form), .upos = std::move(upos), .relation = std::move(relation)};
}

WrittenPhrase write_phrase(const Phrase& root,
                           const std::map<std::string, std::string>& before_vowel) {
  std::vector<Placed> placed;
  place(root, placed);
  WrittenPhrase result;
  std::string& text = result.sentence.text;
  for (size_t i = 0; i < placed.size(); ++i) {
    const Phrase& phrase = *placed[i].phrase;
    std::string form = phrase.form;
    const auto other = before_vowel.find(form);
    if (other != before_vowel.end() && i + 1 < placed.size() &&
        begins_with_vowel(placed[i + 1].phrase->form)) {
      form = other->second;
    }
    if (i == 0) form = capitalised(form);
    if (i > 0 && !phrase.joined) text += ' ';
    const TokenSpan bytes = {std::ssize(text), std::ssize(text) + std::ssize(form)};
    text += form;
    if (phrase.mark != ProbeMark::none) result.marks[phrase.mark] = bytes;
    result.sentence.words.push_back({.form = std::move(form),
                                     .upos = phrase.upos,
                                     .relation = phrase.relation,
                                     .head = placed[i].head,
                                     .bytes = bytes});
  }
  return result;
}

}  // namespace headwise
