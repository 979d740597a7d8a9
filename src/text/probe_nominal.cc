// Nouns of the built-in probes, and what stands before and behind them.
#include <algorithm>
#include <iterator>

#include "text/probe_grammar.h"

namespace headwise {
namespace {

void append(std::vector<Phrase>& list, std::vector<Phrase> more) {
  std::ranges::move(more, std::back_inserter(list));
}

const std::string& first_word(const Phrase& phrase) {
  return phrase.before.empty() ? phrase.form : first_word(phrase.before.front());
}

/// Not "the judge that that teacher greeted", if the language has another pronoun.
void avoid_repetition(const std::vector<std::string>& pronouns, Phrase& relative_clause) {
  auto& words = relative_clause.before;
  if (words.size() < 2 || first_word(words[1]) != words[0].form) return;
  const auto other =
      std::ranges::find_if(pronouns, [&](const std::string& one) { return one != words[0].form; });
  if (other != pronouns.end()) words[0].form = *other;
}

}  // namespace

Nominal ProbeGrammar::name(bool female) {
  return {.phrase = dependent(fresh(female ? words_.female : words_.male), "PROPN", "")};
}

Nominal ProbeGrammar::pronoun(bool subject) {
  const size_t which = weighted(std::array{.3, .3, words_.they.empty() ? 0 : .4});
  const PronounForms& forms = which == 0 ? words_.she : which == 1 ? words_.he : pick(words_.they);
  return {.phrase = dependent(subject ? forms.subject : forms.object, "PRON", ""),
          .number = which == 2 ? Number::plural : Number::singular};
}

Nominal ProbeGrammar::nominal(const Kinds& kinds, bool subject, Detail detail) {
  const std::string& kind = pick(kinds);
  if (kind == kPerson && !anonymous_) {
    const size_t which = weighted(std::array{.18, .16, .66});
    if (which == 0 && used_.insert("a pronoun").second) return pronoun(subject);
    if (which <= 1) return name(chance(.5));
  }
  return common_noun(kind, detail);
}

Nominal ProbeGrammar::common_noun(const std::string& kind, Detail detail) {
  const auto [noun, rare] = fresh_noun(kind);
  const bool countable = words_.counted.empty() || holds(words_.counted, kind);
  const Number number = chance(countable ? .4 : .12) ? Number::plural : Number::singular;
  Nominal result{.phrase = dependent(noun->form(number), "NOUN", ""), .number = number};
  if (rare) result.phrase.mark = ProbeMark::rare;
  result.phrase.before = determiners(kind, noun->gender, number);
  std::vector<Phrase> more = premodifiers(kind, *noun, number);
  const auto& before = result.phrase.before;
  if (more.empty() && !before.empty() && before.back().relation == "nummod" && chance(.3)) {
    more = premodifiers(kind, *noun, number);  // or most numerals would stand beside their noun
  }
  if (words_.adjectives_follow) {
    const auto behind = std::ranges::stable_partition(
        more, [](const Phrase& one) { return one.relation != "amod"; });
    append(result.phrase.after, {behind.begin(), behind.end()});
    more.erase(behind.begin(), behind.end());
  }
  append(result.phrase.before, std::move(more));
  const bool related = detail == Detail::relative && add_relative_clause(kind, result);
  if (detail != Detail::plain && !related) add_postmodifiers(kind, result);
  return result;
}

Nominal ProbeGrammar::owned_by(const AgreeingWord& possessive, const std::string& kind) {
  const Noun& noun = *fresh_noun(kind).first;
  const Number number = chance(.3) ? Number::plural : Number::singular;
  Nominal result{.phrase = dependent(noun.form(number), "NOUN", ""), .number = number};
  result.phrase.before.push_back(
      dependent(possessive.form(noun.gender, number), "PRON", "nmod:poss"));
  return result;
}

std::optional<Phrase> ProbeGrammar::determiner(const std::vector<AgreeingWord>& list,
                                               const std::string& gender, Number number) {
  std::vector<std::string> forms;
  for (const AgreeingWord& one : list) {
    if (!one.form(gender, number).empty()) forms.push_back(one.form(gender, number));
  }
  if (forms.empty()) return std::nullopt;
  return dependent(pick(forms), "DET", "det");
}

/// "her", or "the old farmer's"
std::optional<Phrase> ProbeGrammar::possessor(const std::string& kind, const std::string& gender,
                                              Number number) {
  if (anonymous_ || !holds(words_.possessed, kind) || chance(.7)) return std::nullopt;
  if (words_.genitive.empty() || (chance(.5) && !words_.possessives.empty())) {
    if (words_.possessives.empty()) return std::nullopt;
    return dependent(pick(words_.possessives).form(gender, number), "PRON", "nmod:poss");
  }
  Phrase owner;
  if (chance(.4)) {
    owner = name(chance(.5)).phrase;
  } else {
    const std::string person(kPerson);
    const Noun& noun = *fresh_noun(person).first;
    owner = dependent(noun.singular, "NOUN", "");
    if (auto word = determiner(words_.determiners, noun.gender, Number::singular)) {
      owner.before.push_back(std::move(*word));
    }
    if (chance(.5)) {
      append(owner.before, adjectives(person, noun.gender, Number::singular, false, false));
    }
  }
  owner.relation = "nmod:poss";
  owner.after.push_back(dependent(words_.genitive, "PART", "case"));
  owner.after.back().joined = words_.genitive.starts_with('\'');
  return owner;
}

/// What comes before adjectives: determiners, possessors, numerals.
std::vector<Phrase> ProbeGrammar::determiners(const std::string& kind, const std::string& gender,
                                              Number number) {
  std::vector<Phrase> result;
  const bool countable = words_.counted.empty() || holds(words_.counted, kind);
  const bool counted =
      countable && number == Number::plural && !words_.numerals.empty() && chance(.4);
  if (auto owner = possessor(kind, gender, number)) {
    result.push_back(std::move(*owner));
  } else if (number == Number::singular || chance(counted ? .5 : .75)) {
    const auto& list = counted ? words_.determiners_before_numerals : words_.determiners;
    if (auto word = determiner(list, gender, number)) result.push_back(std::move(*word));
  }
  if (counted) result.push_back(dependent(pick(words_.numerals), "NUM", "nummod"));
  return result;
}

std::vector<Phrase> ProbeGrammar::premodifiers(const std::string& kind, const Noun& noun,
                                               Number number) {
  struct Pattern {
    double weight;
    bool adjective, two, joined, compound;
  };
  static constexpr Pattern kPatterns[] = {
      {.41, false, false, false, false},  // "house"
      {.155, true, false, false, false},  // "old house"
      {.08, false, false, false, true},   // "garden house"
      {.11, true, false, false, true},    // "old garden house"
      {.025, true, true, false, false},   // "small old house"
      {.05, true, true, false, true},     // "small old garden house"
      {.09, true, true, true, false},     // "quiet and pleasant house"
      {.03, true, true, true, true},      // "quiet and pleasant garden house"
  };
  std::array<double, std::size(kPatterns)> weights{};
  std::ranges::transform(kPatterns, weights.begin(), &Pattern::weight);
  const Pattern& pattern = kPatterns[weighted(weights)];
  std::vector<Phrase> result;
  if (pattern.adjective) {
    result = adjectives(kind, noun.gender, number, pattern.two, pattern.joined);
  }
  const auto compounds = words_.compounds.find(kind);
  if (pattern.compound && compounds != words_.compounds.end()) {
    const std::string& other = fresh(compounds->second);
    if (other != noun.singular) result.push_back(dependent(other, "NOUN", "compound"));
  }
  return result;
}

/// One, two in their order, or two that are joined: "quiet and very pleasant".
std::vector<Phrase> ProbeGrammar::adjectives(const std::string& kind, const std::string& gender,
                                             Number number, bool two, bool joined) {
  const auto found = words_.adjectives.find(kind);
  if (found == words_.adjectives.end()) return {};
  const auto& groups = found->second;
  const auto adjective = [&](const std::vector<AgreeingWord>& group, double degree) {
    std::vector<std::string> forms;
    for (const AgreeingWord& one : group) forms.push_back(one.form(gender, number));
    Phrase word = dependent(fresh(forms), "ADJ", "amod");
    if (!words_.degree.empty() && chance(degree))
      word.before.push_back(adverb(pick(words_.degree)));
    return word;
  };
  if (two && joined && groups.front().size() > 1 && !words_.adjective_coordinators.empty()) {
    Phrase first = adjective(groups.front(), 0);
    Phrase second = adjective(groups.front(), .37);
    if (first.form == second.form) return {std::move(first)};
    first.after.push_back(coordinated(pick(words_.adjective_coordinators), std::move(second)));
    return {std::move(first)};
  }
  if (two && groups.size() > 1) {
    const uint32_t size = static_cast<uint32_t>(groups.size());
    const uint32_t first = below(size - 1);
    const uint32_t second = first + 1 + below(size - 1 - first);
    return {adjective(groups[first], 0), adjective(groups[second], 0)};
  }
  std::vector<AgreeingWord> all;
  for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
  return {adjective(all, 0)};
}

void ProbeGrammar::add_postmodifiers(const std::string& kind, Nominal& nominal) {
  switch (weighted(std::array{.17, .18, .22, .43})) {
    case 0:
      add_relative_clause(kind, nominal);
      break;
    case 1:
      if (const auto groups = words_.modifiers.find(kind); groups != words_.modifiers.end()) {
        nominal.phrase.after.push_back(prepositional(groups->second, "nmod", Detail::plain));
        nominal.heavy = true;
      }
      break;
    case 2:
      add_conjuncts(kind, nominal);
      break;
    default:
      break;
  }
}

bool ProbeGrammar::add_conjuncts(const std::string& kind, Nominal& nominal) {
  if (words_.noun_coordinators.empty() || rare_probability_ > 0) return false;
  const int others = chance(.2) ? 2 : 1;
  for (int i = 0; i < others; ++i) {
    const bool named = kind == kPerson && chance(.15);
    Phrase other = named ? name(chance(.5)).phrase : common_noun(kind, Detail::plain).phrase;
    other.relation = "conj";
    const bool last = i + 1 == others;
    nominal.phrase.after.push_back(
        last ? coordinated(pick(words_.noun_coordinators), std::move(other)) : std::move(other));
    if (!last) {
      auto& before = nominal.phrase.after.back().before;
      before.insert(before.begin(), punctuation(","));
    }
  }
  nominal.number = Number::plural;
  return true;
}

bool ProbeGrammar::add_relative_clause(const std::string& kind, Nominal& nominal) {
  if (relatives_ >= (competitors_ ? 2 : 1)) return false;
  const auto forms = std::ranges::find_if(
      words_.relatives, [&](const RelativeForms& one) { return holds(one.kinds, kind); });
  std::vector<const Verb*> acting, suffering;
  for (const Verb& verb : words_.verbs) {
    if (holds(verb.subject, kind) && verb.recipient.empty()) acting.push_back(&verb);
    if (holds(verb.object, kind) && verb.recipient.empty()) suffering.push_back(&verb);
  }
  if (forms == words_.relatives.end() || (acting.empty() && suffering.empty())) return false;
  ++relatives_;
  const bool acts = suffering.empty() || (!acting.empty() && chance(.5));
  const Verb& verb = fresh_verb(acts ? acting : suffering);
  Nominal who{.phrase = dependent(pick(acts ? forms->subject : forms->object), "PRON", ""),
              .number = nominal.number};
  ClauseParts parts{.verb = &verb, .object_first = !acts, .simple = true, .adverbial = chance(.3)};
  (acts ? parts.subject : parts.object) = std::move(who);
  Phrase inner = clause(std::move(parts)).phrase;
  inner.relation = "acl:relcl";
  avoid_repetition(acts ? forms->subject : forms->object, inner);
  nominal.phrase.after.push_back(std::move(inner));
  nominal.heavy = true;
  return true;
}

bool ProbeGrammar::add_relative_about(Nominal& nominal, Nominal other) {
  const auto forms = std::ranges::find_if(
      words_.relatives, [&](const RelativeForms& one) { return holds(one.kinds, kPerson); });
  if (forms == words_.relatives.end()) return false;
  const bool acts = chance(.5);
  Nominal who{.phrase =
                  dependent(acts ? forms->subject.front() : forms->object.front(), "PRON", "")};
  ClauseParts parts{.verb = &verb_among_people(false),
                    .object_first = !acts,
                    .simple = true,
                    .adverbial = chance(.3)};
  parts.subject = acts ? std::move(who) : std::move(other);
  parts.object = acts ? std::move(other) : std::move(who);
  Phrase inner = clause(std::move(parts)).phrase;
  inner.relation = "acl:relcl";
  inner.before.insert(inner.before.begin(), punctuation(","));
  inner.after.push_back(punctuation(","));
  nominal.phrase.after.push_back(std::move(inner));
  return true;
}

/// "in the garden"
Phrase ProbeGrammar::prepositional(const std::vector<PrepositionGroup>& groups,
                                   const char* relation, Detail detail) {
  const PrepositionGroup& group = pick(groups);
  Phrase phrase = nominal(group.kinds, false, detail).phrase;
  phrase.relation = relation;
  phrase.before.insert(phrase.before.begin(), dependent(pick(group.words), "ADP", "case"));
  return phrase;
}

/// The conjunct, with its coordinator in front.
Phrase ProbeGrammar::coordinated(std::string coordinator, Phrase phrase) {
  phrase.relation = "conj";
  phrase.before.insert(phrase.before.begin(), dependent(std::move(coordinator), "CCONJ", "cc"));
  return phrase;
}

}  // namespace headwise
