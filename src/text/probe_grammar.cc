// Clauses and sentences of the built-in probes.
#include "text/probe_grammar.h"

#include <algorithm>
#include <iterator>

namespace headwise {
namespace {

constexpr int kTries = 8;  // to find a word that was not used

void insert_front(Phrase& phrase, Phrase word) {
  phrase.before.insert(phrase.before.begin(), std::move(word));
}

}  // namespace

ProbeGrammar::ProbeGrammar(const ProbeLexicon::Words& words, uint64_t seed, bool anonymous)
    : words_(words), random_(seed), anonymous_(anonymous), tense_(Tense::past) {
  if (chance(.4)) tense_ = Tense::present;
  for (const Verb& verb : words.verbs) {
    auto& list = !verb.recipient.empty() ? ditransitive_
                 : !verb.object.empty()  ? transitive_
                                         : intransitive_;
    list.push_back(&verb);
  }
}

size_t ProbeGrammar::weighted(std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  double at = random_.uniform() * sum;
  size_t i = 0;
  for (const double weight : weights) {
    if (at < weight) return i;
    at -= weight;
    ++i;
  }
  return 0;
}

const std::string& ProbeGrammar::fresh(const std::vector<std::string>& list) {
  const std::string* one = nullptr;
  for (int i = 0; i < kTries; ++i) {
    one = &pick(list);
    if (used_.insert(*one).second) break;
  }
  return *one;
}

std::pair<const Noun*, bool> ProbeGrammar::fresh_noun(const std::string& kind) {
  const auto rare = words_.rare.find(kind);
  if (!rare_used_ && rare != words_.rare.end() && rare_probability_ > 0 &&
      chance(rare_probability_)) {
    rare_used_ = true;
    return {&pick(rare->second), true};
  }
  const Noun* noun = nullptr;
  for (int i = 0; i < kTries; ++i) {
    noun = &pick(words_.nouns.at(kind));
    if (used_.insert(noun->singular).second) break;
  }
  return {noun, false};
}

const Verb& ProbeGrammar::fresh_verb(const std::vector<const Verb*>& list) {
  const Verb* verb = nullptr;
  for (int i = 0; i < kTries; ++i) {
    verb = pick(list);
    if (used_.insert(verb->infinitive).second) break;
  }
  return *verb;
}

const Verb& ProbeGrammar::any_verb() {
  const size_t which =
      weighted(std::array{intransitive_.empty() ? 0 : .28, transitive_.empty() ? 0 : .50,
                          ditransitive_.empty() ? 0 : .22});
  return fresh_verb(which == 0 ? intransitive_ : which == 1 ? transitive_ : ditransitive_);
}

/// Something that people do, with this form.
const Verb& ProbeGrammar::verb_of_people(VerbForm needed) {
  for (int i = 0; i < kTries; ++i) {
    const Verb& verb = any_verb();
    if (holds(verb.subject, kPerson) && !verb.form(needed).empty()) return verb;
  }
  return verb_among_people(false);
}

const Verb& ProbeGrammar::verb_among_people(bool giving) {
  const auto among = [](const std::vector<const Verb*>& verbs, auto object) {
    std::vector<const Verb*> result;
    std::ranges::copy_if(verbs, std::back_inserter(result), [&](const Verb* verb) {
      return holds(verb->subject, kPerson) && holds(verb->*object, kPerson);
    });
    return result;
  };
  std::vector<const Verb*> list;
  if (giving) list = among(ditransitive_, &Verb::recipient);
  if (list.empty()) list = among(transitive_, &Verb::object);
  return fresh_verb(list);
}

/// A verb of people and the kind of something that they have, which is its object; or null.
std::pair<const Verb*, std::string> ProbeGrammar::verb_of_owned() {
  std::vector<std::pair<const Verb*, std::string>> list;
  for (const Verb& verb : words_.verbs) {
    if (!verb.recipient.empty() || !holds(verb.subject, kPerson)) continue;
    for (const std::string& kind : verb.object) {
      if (holds(words_.possessed, kind)) list.emplace_back(&verb, kind);
    }
  }
  return list.empty() ? std::pair<const Verb*, std::string>() : pick(list);
}

const Verb* ProbeGrammar::reflexive_verb() {
  std::vector<const Verb*> list;
  for (const Verb* verb : transitive_) {
    if (verb->reflexive && holds(verb->subject, kPerson)) list.push_back(verb);
  }
  return list.empty() ? nullptr : &fresh_verb(list);
}

/// Auxiliaries that go with the tense and the verb, or null.
const AuxiliaryChain* ProbeGrammar::chain(const Verb& verb, size_t length, bool support,
                                          bool simple) {
  std::vector<const AuxiliaryChain*> list;
  for (const AuxiliaryChain& one : words_.auxiliaries) {
    if (one.tense == tense_ && one.words.size() == length && !verb.form(one.takes).empty() &&
        (support || !one.support) && !(simple && one.takes == VerbForm::infinitive)) {
      // The words that only support are as usual there as all others together.
      list.insert(list.end(), one.support ? 4 : 1, &one);
    }
  }
  return list.empty() ? nullptr : pick(list);
}

ProbeGrammar::VerbGroup ProbeGrammar::verb_group(const Verb& verb, Number number,
                                                 const ClauseParts& parts) {
  enum Pattern { kFinite, kAux, kAuxAdverb, kTwoAux, kAuxNotAdverb, kAuxAdverbAux, kAuxTwoAdverbs };
  auto pattern = static_cast<Pattern>(weighted(std::array{.44, .06, .09, .05, .14, .13, .09}));
  if (parts.simple) pattern = static_cast<Pattern>(weighted(std::array{.62, .22, .16}));
  if (parts.question) pattern = static_cast<Pattern>(kAux + weighted(std::array{.7, .15, .15}));
  const bool negation =
      parts.negation && !parts.simple && !parts.question && !words_.negation.empty();
  if (pattern == kAuxNotAdverb && !negation) pattern = kAuxTwoAdverbs;

  const bool negated =
      pattern == kAuxNotAdverb || ((pattern == kAuxAdverb || pattern == kAuxAdverbAux) &&
                                   negation && chance(pattern == kAuxAdverb ? .35 : .6));
  const size_t length = pattern == kTwoAux || pattern == kAuxAdverbAux ? 2 : 1;
  const bool support = parts.question || (negated && length == 1);
  const AuxiliaryChain* aux =
      pattern == kFinite ? nullptr : chain(verb, length, support, parts.simple);

  VerbGroup result;
  const auto add_adverb = [&](const std::vector<std::string>& list) {
    if (list.empty()) return;
    result.before.push_back(adverb(fresh(list)));
    result.adverb = true;
  };
  const auto add_aux = [&](size_t i) {
    result.before.push_back(dependent(aux->words[i].form("", number), "AUX", "aux"));
  };
  if (aux == nullptr) {
    const AgreeingWord& finite = tense_ == Tense::present ? verb.present : verb.past;
    result.form = finite.form("", number);
    if (chance(.03)) add_adverb(chance(.8) ? words_.frequency : words_.stance);
    return result;
  }
  result.form = verb.form(aux->takes);
  result.taken = aux->takes;
  add_aux(0);
  if (negated) {
    result.before.push_back(dependent(words_.negation, "PART", "advmod"));
    result.adverb = true;
  }
  const auto& stance = aux->stance ? words_.stance : words_.negated;
  if (pattern == kAuxNotAdverb) add_adverb(words_.negated);
  if (pattern == kAuxAdverb && !negated) {
    add_adverb(parts.question ? words_.negated : chance(.7) ? words_.frequency : stance);
  }
  if (pattern == kAuxAdverbAux && !negated) add_adverb(stance);
  if (pattern == kAuxTwoAdverbs) {
    if (aux->stance) add_adverb(words_.stance);
    add_adverb(words_.negated);
  }
  if (length == 2) add_aux(1);
  return result;
}

Clause ProbeGrammar::clause(ClauseParts parts) {
  const Verb& verb = parts.verb != nullptr ? *parts.verb : any_verb();
  Nominal subject = parts.subject ? *std::move(parts.subject)
                                  : nominal(verb.subject, true, competing(parts.detail));
  subject.phrase.relation = "nsubj";
  VerbGroup group = verb_group(verb, subject.number, parts);
  Clause result{.number = subject.number, .taken = group.taken};
  Phrase& phrase = result.phrase;
  phrase = dependent(group.form, "VERB", "root");
  phrase.before = std::move(group.before);
  const auto place = phrase.before.begin() + (parts.question && group.taken ? 1 : 0);
  phrase.before.insert(place, std::move(subject.phrase));

  bool heavy = false;
  if (!verb.recipient.empty()) {
    const Detail detail = competing(parts.detail);
    const Detail recipient_detail = detail == Detail::relative ? detail : Detail::plain;
    Nominal recipient = parts.recipient ? *std::move(parts.recipient)
                                        : nominal(verb.recipient, false, recipient_detail);
    recipient.phrase.relation = "iobj";
    phrase.after.push_back(std::move(recipient.phrase));
  }
  if (!verb.object.empty()) {
    Nominal object =
        parts.object ? *std::move(parts.object) : nominal(verb.object, false, parts.detail);
    object.phrase.relation = "obj";
    heavy = object.heavy;
    if (parts.object_first) {
      insert_front(phrase, std::move(object.phrase));
    } else {
      phrase.after.push_back(std::move(object.phrase));
    }
  }
  const bool opened = parts.opening && !group.adverb && !parts.question && chance(.5);
  if (parts.adverbial && !heavy) add_circumstances(verb, group.adverb || opened, opened, phrase);
  if (opened) add_opening(verb, phrase);
  return result;
}

/// "slowly in the garden", "in the garden again"
void ProbeGrammar::add_circumstances(const Verb& verb, bool adverbs, bool opened, Phrase& phrase) {
  const bool told = !verb.gerund.empty() && chance(adverbs ? .3 : .85);
  const bool manner = told && !verb.adverbs.empty() && (words_.closing.empty() || chance(.65));
  if (manner) phrase.after.push_back(adverb(fresh(verb.adverbs)));
  if (!verb.obliques.empty() && !opened && chance(verb.object.empty() ? .6 : .3)) {
    phrase.after.push_back(
        prepositional(words_.prepositions.at(pick(verb.obliques)), "obl", Detail::plain));
  }
  if (told && !manner && !words_.closing.empty()) {
    phrase.after.push_back(adverb(fresh(words_.closing)));
  }
}

/// "Perhaps", or "In the garden,", before everything else.
void ProbeGrammar::add_opening(const Verb& verb, Phrase& phrase) {
  if (verb.obliques.empty() || chance(.5)) {
    if (!words_.opening.empty()) insert_front(phrase, adverb(fresh(words_.opening)));
    return;
  }
  Phrase where = prepositional(words_.prepositions.at(pick(verb.obliques)), "obl", Detail::plain);
  where.after.push_back(punctuation(","));
  insert_front(phrase, std::move(where));
}

void ProbeGrammar::subordinate(Phrase& clause) {
  clause.relation = "advcl";
  insert_front(clause, dependent(pick(words_.subordinators), "SCONJ", "mark"));
}

/// "… and washed the car": the same subject, and the same auxiliaries.
void ProbeGrammar::add_second_predicate(Clause& clause) {
  const Verb& verb = verb_of_people(clause.taken.value_or(VerbForm::infinitive));
  // Made as a clause of its own, of which the subject and the auxiliaries are then dropped.
  Clause second =
      this->clause({.verb = &verb, .subject = Nominal{.number = clause.number}, .simple = true});
  const AgreeingWord& finite = tense_ == Tense::present ? verb.present : verb.past;
  second.phrase.form = clause.taken ? verb.form(*clause.taken) : finite.form("", clause.number);
  std::erase_if(second.phrase.before, [](const Phrase& one) {
    return one.relation == "nsubj" || one.relation == "aux" || one.upos == "PART";
  });
  clause.phrase.after.push_back(
      coordinated(pick(words_.clause_coordinators), std::move(second.phrase)));
}

Phrase ProbeGrammar::ended(Clause clause, const char* mark) {
  clause.phrase.after.push_back(punctuation(mark));
  return std::move(clause.phrase);
}

/// For subjects and recipients: a relative clause in half of the cases where there is room.
Detail ProbeGrammar::competing(Detail detail) {
  return competitors_ && detail == Detail::full && chance(.5) ? Detail::relative : detail;
}

Phrase ProbeGrammar::reason(double full) {
  Phrase phrase =
      clause({.detail = chance(full) ? Detail::full : Detail::plain, .simple = true}).phrase;
  subordinate(phrase);
  return phrase;
}

void ProbeGrammar::add_reason_behind(Clause& clause) { clause.phrase.after.push_back(reason(.5)); }

void ProbeGrammar::add_reason_before(Clause& clause) {
  Phrase phrase = reason(.5);
  phrase.after.push_back(punctuation(","));
  insert_front(clause.phrase, std::move(phrase));
}

Phrase ProbeGrammar::sentence() {
  competitors_ = true;
  const double reasons = words_.subordinators.empty() ? 0 : 1;
  const double coordinated_clauses = words_.clause_coordinators.empty() ? 0 : 1;
  switch (weighted(std::array{.16, .18 * reasons, .18 * reasons, .12 * coordinated_clauses,
                              .18 * coordinated_clauses, words_.auxiliaries.empty() ? 0 : .18})) {
    case 1: {
      Clause main = clause({.detail = Detail::full, .opening = true, .adverbial = chance(.3)});
      add_reason_behind(main);
      return ended(std::move(main));
    }
    case 2: {
      Clause main = clause({.detail = Detail::full});
      add_reason_before(main);
      return ended(std::move(main));
    }
    case 3: {
      const Verb& verb = verb_of_people(VerbForm::infinitive);
      Clause main = clause({.verb = &verb,
                            .subject = nominal({std::string(kPerson)}, true, Detail::full),
                            .negation = false,
                            .adverbial = chance(.4)});
      add_second_predicate(main);
      if (reasons > 0 && chance(.4)) add_reason_before(main);
      return ended(std::move(main));
    }
    case 4: {
      const bool reasoned = reasons > 0 && chance(.3);
      Clause main =
          clause({.detail = chance(.5) ? Detail::full : Detail::plain, .opening = !reasoned});
      Phrase other =
          coordinated(pick(words_.clause_coordinators), clause({.detail = Detail::full}).phrase);
      insert_front(other, punctuation(","));
      main.phrase.after.push_back(std::move(other));
      if (reasoned) add_reason_before(main);
      return ended(std::move(main));
    }
    case 5: {
      Clause main = clause({.detail = Detail::full, .question = true});
      if (reasons > 0 && chance(.4)) add_reason_behind(main);
      return ended(std::move(main), "?");
    }
    default:
      return ended(clause({.detail = Detail::full, .opening = true}));
  }
}

Phrase ProbeGrammar::sentence_with_rare(double probability) {
  rare_probability_ = probability;
  return ended(clause({.detail = chance(.3) ? Detail::full : Detail::plain, .opening = true}));
}

}  // namespace headwise
