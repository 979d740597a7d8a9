// The words of the built-in probes by class, as the grammar draws them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/text/probes.h"

namespace headwise {

/// The kind of nouns that names and personal pronouns stand for.
inline constexpr std::string_view kPerson = "person";

/// A text about semantic fields has so many words of each of so many fields.
inline constexpr int kFieldWords = 3;
inline constexpr int kFieldsPerText = 4;

enum class Number { singular, plural };
enum class Tense { present, past };
enum class VerbForm { infinitive, participle, gerund };  // what auxiliaries take

/// A word that agrees with a noun; one without forms is the same everywhere.
struct AgreeingWord {
  struct Forms {
    std::string gender{}, singular{}, plural{};  // a form that does not exist is empty
    bool operator==(const Forms&) const = default;
  };
  std::vector<Forms> forms{};

  /// Of a gender that it does not have: the first.
  const std::string& form(const std::string& gender, Number number) const;
  bool operator==(const AgreeingWord&) const = default;
};

struct Noun {
  std::string singular{}, plural{}, gender{};
  const std::string& form(Number number) const {
    return number == Number::singular ? singular : plural;
  }
};

/// Prepositions, and the kinds of nouns that follow them.
struct PrepositionGroup {
  std::vector<std::string> words{}, kinds{};
};

struct Verb {
  AgreeingWord present{}, past{};
  std::string infinitive{}, participle{}, gerund{};  // without a gerund it is a state, and nobody
                                                     // can do it quickly
  std::vector<std::string> subject{}, object{}, recipient{};  // kinds of nouns
  std::vector<std::string> adverbs{}, obliques{};
  bool reflexive = false;  // people do it to themselves
  const std::string& form(VerbForm form) const;
};

struct AuxiliaryChain {
  std::vector<AgreeingWord> words{};
  Tense tense = Tense::present;
  VerbForm takes = VerbForm::infinitive;
  bool support = false;  // only in questions and with a negation
  bool stance = true;    // "probably" goes with it
};

struct PronounForms {
  std::string subject{}, object{}, reflexive{};
  AgreeingWord possessive{};
};

struct RelativeForms {
  std::vector<std::string> kinds{}, subject{}, object{};
};

/// Empty classes: the language lacks them.
struct ProbeLexicon::Words {
  template <class T>
  using ByKind = std::map<std::string, std::vector<T>>;

  std::string language{};
  bool adjectives_follow = false;
  std::vector<AgreeingWord> determiners{}, determiners_before_numerals{};
  std::map<std::string, std::string> before_vowel{};
  std::vector<AgreeingWord> possessives{};
  std::string genitive{};
  std::vector<std::string> possessed{};  // kinds of nouns that people have
  std::vector<std::string> counted{};    // kinds that come in numbers
  std::vector<std::string> numerals{};
  std::vector<std::string> female{}, male{};
  PronounForms she{}, he{};
  std::vector<PronounForms> they{};
  ByKind<Noun> nouns{}, rare{};
  ByKind<std::string> compounds{};
  ByKind<std::vector<AgreeingWord>> adjectives{};  // groups, in the order in which they are said
  std::map<std::string, std::vector<PrepositionGroup>> prepositions{}, modifiers{};
  std::vector<Verb> verbs{};
  std::vector<AuxiliaryChain> auxiliaries{};
  std::vector<std::string> frequency{}, stance{}, negated{}, degree{}, opening{}, closing{};
  std::string negation{};
  std::vector<std::string> subordinators{};
  std::vector<std::string> noun_coordinators{}, adjective_coordinators{}, clause_coordinators{};
  std::vector<RelativeForms> relatives{};
  std::map<std::string, std::vector<std::string>> fields{};
  std::vector<std::string> field_sentences{};
};

/// The English lexicon, as a file would have it.
std::string_view english_lexicon();

}  // namespace headwise
