// The grammar of the built-in probes: what stands beside what, and how often.
//
// Frequencies are chosen so that the number of words between a word and its syntactic head varies;
// probes_test.cc holds the bound.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/core/random.h"
#include "text/probe_lexicon.h"
#include "text/probe_phrase.h"

namespace headwise {

/// A noun with what belongs to it, a name or a pronoun.
struct Nominal {
  Phrase phrase{};
  Number number = Number::singular;
  bool heavy = false;  // it ends in words that would claim what follows
};

/// How much may hang on a noun.
enum class Detail {
  relative,  // a relative clause, if the language has one, else as full
  full,      // also prepositions, relative clauses, other nouns beside it
  plain,     // what stands before it
};

/// A verb with what belongs to it.
struct Clause {
  Phrase phrase{};
  Number number = Number::singular;
  std::optional<VerbForm> taken{};  // what its auxiliaries take; none: it is finite
};

/// Draws the parts of one sentence. No noun, verb or name comes twice where there are others.
class ProbeGrammar {
 public:
  using Kinds = std::vector<std::string>;

  /// Anonymous: without names and pronouns but those that it is given.
  ProbeGrammar(const ProbeLexicon::Words& words, uint64_t seed, bool anonymous = false);

  /// A sentence with its full stop or question mark. Verbs of relative clauses stand between words
  /// and their verbs, so that the nearest verb is often another one.
  Phrase sentence();

  /// One clause, in which every noun that there are rare ones for becomes one of those with this
  /// probability, until one is.
  Phrase sentence_with_rare(double probability);

  // Nouns, names and pronouns; their relation is for the caller to set.
  Nominal nominal(const Kinds& kinds, bool subject, Detail detail);
  Nominal common_noun(const std::string& kind, Detail detail);
  Nominal name(bool female);
  Nominal owned_by(const AgreeingWord& possessive, const std::string& kind);

  struct ClauseParts {
    const Verb* verb = nullptr;  // null: any. What is given is not drawn.
    std::optional<Nominal> subject{}, object{}, recipient{};
    Detail detail = Detail::plain;
    bool object_first = false;  // as in relative clauses
    bool question = false;
    bool opening = false;   // something may come before the subject
    bool negation = true;   // it may be negated
    bool simple = false;    // nor that, nor what might be
    bool adverbial = true;  // adverbs and prepositions may follow
  };
  Clause clause(ClauseParts parts);
  const Verb& verb_of_people(VerbForm needed = VerbForm::infinitive);
  const Verb& verb_among_people(bool giving);  // "helped", or "gave" if there is such a verb
  std::pair<const Verb*, std::string> verb_of_owned();  // with a thing of people as its object
  const Verb* reflexive_verb();  // "washed", as in "washed herself"; null: there is none
  /// ", who greeted Mary," behind a name. False if the language has no such clauses.
  bool add_relative_about(Nominal& nominal, Nominal other);
  void subordinate(Phrase& clause);
  bool has_subordinators() const { return !words_.subordinators.empty(); }
  static Phrase ended(Clause clause, const char* mark = ".");

  bool chance(double probability) { return random_.uniform() < probability; }
  uint32_t below(uint32_t n) { return random_.below(n); }

 private:
  struct VerbGroup {
    std::vector<Phrase> before{};  // auxiliaries and adverbs
    std::string form{};
    std::optional<VerbForm> taken{};
    bool adverb = false;  // there is one
  };

  static bool holds(const std::vector<std::string>& list, std::string_view one) {
    return std::ranges::find(list, one) != list.end();
  }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[random_.below(static_cast<uint32_t>(list.size()))];
  }
  size_t weighted(std::span<const double> weights);
  const std::string& fresh(const std::vector<std::string>& list);
  std::pair<const Noun*, bool> fresh_noun(const std::string& kind);  // and whether it is rare
  const Verb& fresh_verb(const std::vector<const Verb*>& list);

  Nominal pronoun(bool subject);
  std::vector<Phrase> premodifiers(const std::string& kind, const Noun& noun, Number number);
  std::vector<Phrase> adjectives(const std::string& kind, const std::string& gender, Number number,
                                 bool two, bool joined);
  std::vector<Phrase> determiners(const std::string& kind, const std::string& gender,
                                  Number number);
  std::optional<Phrase> determiner(const std::vector<AgreeingWord>& list, const std::string& gender,
                                   Number number);
  std::optional<Phrase> possessor(const std::string& kind, const std::string& gender,
                                  Number number);
  void add_postmodifiers(const std::string& kind, Nominal& nominal);
  bool add_relative_clause(const std::string& kind, Nominal& nominal);
  bool add_conjuncts(const std::string& kind, Nominal& nominal);
  Phrase prepositional(const std::vector<PrepositionGroup>& groups, const char* relation,
                       Detail detail);

  const Verb& any_verb();
  VerbGroup verb_group(const Verb& verb, Number number, const ClauseParts& parts);
  const AuxiliaryChain* chain(const Verb& verb, size_t length, bool support, bool simple);
  void add_circumstances(const Verb& verb, bool adverbs, bool opened, Phrase& phrase);
  void add_opening(const Verb& verb, Phrase& phrase);
  void add_second_predicate(Clause& clause);
  Phrase reason(double full);  // "because Mary slept", with this probability in full detail
  void add_reason_behind(Clause& clause);
  void add_reason_before(Clause& clause);
  Detail competing(Detail detail);
  Phrase coordinated(std::string coordinator, Phrase phrase);
  Phrase adverb(std::string form) { return dependent(std::move(form), "ADV", "advmod"); }

  const ProbeLexicon::Words& words_;
  Random random_;
  bool anonymous_;
  Tense tense_;
  std::set<std::string> used_;
  bool competitors_ = false;  // relative clauses on subjects and recipients, two in a sentence
  int relatives_ = 0;
  double rare_probability_ = 0;
  bool rare_used_ = false;
  std::vector<const Verb*> intransitive_, transitive_, ditransitive_;
};

}  // namespace headwise
