// The built-in probes: sentences with trees, pronouns with names, semantic fields, rare words.
#include "headwise/text/probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "core/shuffle.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "text/probe_grammar.h"
#include "text/unicode.h"

namespace headwise {
namespace {

using Words = ProbeLexicon::Words;

enum Purpose : uint32_t { kSentences = 0x70726f62, kCoreference, kFields, kRare };

void check_count(int64_t count) {
  if (count >= 0) return;
  throw Error({.what = "probes: a number of texts is negative", .got = fmt::format("{}", count)});
}

/// How one pronoun and two names stand.
struct Arrangement {
  bool right_first;
  bool female;  // the right name
  enum Place { kSubject, kObject, kOwner, kBefore } place;

  // Even and odd items alike, since the head is chosen on the one and measured on the other.
  explicit Arrangement(int64_t item)
      : right_first(item / 2 % 2 == 0),
        female(item / 4 % 2 == 0),
        place(static_cast<Place>(item / 8 % 4)) {}
};

void shift(std::map<ProbeMark, TokenSpan>& marks, int64_t by) {
  for (auto& [mark, bytes] : marks) bytes = {bytes.begin + by, bytes.end + by};
}

/// Draws one item.
class CoreferenceMaker {
 public:
  CoreferenceMaker(const Words& words, uint64_t seed, Arrangement how)
      : words_(words), grammar_(words, seed, /*anonymous=*/true), how_(how) {}

  CoreferenceItem make() {
    Clause told = names();
    Clause about = pronoun();
    CoreferenceItem item;
    if (how_.place == Arrangement::kBefore && grammar_.has_subordinators()) {
      grammar_.subordinate(about.phrase);
      about.phrase.after.push_back(punctuation(","));
      told.phrase.before.insert(told.phrase.before.begin(), std::move(about.phrase));
      write(ProbeGrammar::ended(std::move(told)), item);
    } else if (grammar_.has_subordinators() && grammar_.chance(.6)) {
      grammar_.subordinate(about.phrase);
      told.phrase.after.push_back(std::move(about.phrase));
      write(ProbeGrammar::ended(std::move(told)), item);
    } else {
      write(ProbeGrammar::ended(std::move(told)), item);
      item.text += ' ';
      write(ProbeGrammar::ended(std::move(about)), item);
    }
    return item;
  }

 private:
  /// "Anna helped Peter in the garden"
  Clause names() {
    const auto name = [&](bool right) {
      Nominal one = grammar_.name(right == how_.female);
      one.phrase.mark = right ? ProbeMark::right_name : ProbeMark::wrong_name;
      return one;
    };
    const Verb& verb = grammar_.verb_among_people(grammar_.chance(.3));
    ProbeGrammar::ClauseParts parts{
        .verb = &verb, .subject = name(how_.right_first), .simple = true};
    (verb.recipient.empty() ? parts.object : parts.recipient) = name(!how_.right_first);
    return grammar_.clause(std::move(parts));
  }

  /// "she read a book", "the nurse liked her", "her dog slept", "the nurse read her book"
  Clause pronoun() {
    const PronounForms& forms = how_.female ? words_.she : words_.he;
    const auto place = how_.place == Arrangement::kBefore
                           ? (grammar_.chance(.6) ? Arrangement::kSubject : Arrangement::kOwner)
                           : how_.place;
    if (place == Arrangement::kObject) {
      const Verb& verb = grammar_.verb_among_people(false);
      return grammar_.clause(
          {.verb = &verb, .subject = person(), .object = marked(forms.object), .simple = true});
    }
    if (place == Arrangement::kOwner) {
      const bool subject = grammar_.chance(.5);
      const auto [verb, kind] = grammar_.verb_of_owned(subject);
      if (verb != nullptr) {
        ProbeGrammar::ClauseParts parts{.verb = verb, .simple = true};
        (subject ? parts.subject : parts.object) = owned(forms.possessive, kind);
        if (!subject) parts.subject = person();
        return grammar_.clause(std::move(parts));
      }
    }
    const Verb& verb = grammar_.verb_of_people();
    return grammar_.clause({.verb = &verb, .subject = marked(forms.subject), .simple = true});
  }

  Nominal person() { return grammar_.common_noun(std::string(kPerson), Detail::plain); }

  Nominal owned(const AgreeingWord& possessive, const std::string& kind) {
    Nominal one = grammar_.owned_by(possessive, kind);
    one.phrase.before.front().mark = ProbeMark::pronoun;
    return one;
  }

  static Nominal marked(const std::string& form) {
    Nominal one{.phrase = dependent(form, "PRON", "")};
    one.phrase.mark = ProbeMark::pronoun;
    return one;
  }

  /// Behind what the item has.
  void write(const Phrase& phrase, CoreferenceItem& item) const {
    WrittenPhrase written = write_phrase(phrase, words_.before_vowel);
    shift(written.marks, std::ssize(item.text));
    item.text += written.sentence.text;
    for (const auto& [mark, bytes] : written.marks) {
      if (mark == ProbeMark::pronoun) item.pronoun = bytes;
      if (mark == ProbeMark::right_name) item.right = bytes;
      if (mark == ProbeMark::wrong_name) item.wrong = bytes;
    }
  }

  const Words& words_;
  ProbeGrammar grammar_;
  Arrangement how_;
};

/// 0, 0, 0, 1, 1, 1, … in an order without equal neighbours.
std::vector<int> spread_fields(Random& random) {
  std::vector<int> order;
  for (int i = 0; i < kFieldsPerText * kFieldWords; ++i) order.push_back(i / kFieldWords);
  do {
    permute(order, random);  // about one in ten will do
  } while (std::ranges::adjacent_find(order) != order.end());
  return order;
}

FieldItem field_item(const Words& words, uint64_t seed) {
  Random random(seed);
  std::vector<std::pair<std::string, std::vector<std::string>>> fields(words.fields.begin(),
                                                                       words.fields.end());
  permute(fields, random);
  fields.resize(kFieldsPerText);
  for (auto& [name, list] : fields) permute(list, random);
  std::vector<int> order = spread_fields(random);
  const std::string& frame =
      words.field_sentences[random.below(static_cast<uint32_t>(words.field_sentences.size()))];
  const size_t place = frame.find("{}");
  FieldItem item{.text = frame.substr(0, place)};
  std::array<size_t, kFieldsPerText> next{};
  for (size_t i = 0; i < order.size(); ++i) {
    const auto& [name, list] = fields[order[i]];
    const std::string& word = list[next[order[i]]++];
    const bool last = i + 1 == order.size();
    if (last && !words.noun_coordinators.empty()) {
      item.text += fmt::format(" {} ", words.noun_coordinators.front());
    } else if (i > 0) {
      item.text += ", ";
    }
    item.words.push_back({std::ssize(item.text), std::ssize(item.text) + std::ssize(word)});
    item.fields.push_back(name);
    item.text += word;
  }
  item.text += frame.substr(place + 2);
  return item;
}

RareItem rare_item(const Words& words, uint64_t seed) {
  constexpr int kPatient = 8, kTries = 256;
  for (int i = 0; i < kTries; ++i) {
    ProbeGrammar grammar(words, derived_seed(seed, i, 0, kRare));
    const WrittenPhrase written =
        write_phrase(grammar.sentence_with_rare(i < kPatient ? .25 : 1), words.before_vowel);
    const auto word = written.marks.find(ProbeMark::rare);
    if (word != written.marks.end()) return {.text = written.sentence.text, .word = word->second};
  }
  throw Error({.what = "probe lexicon: its rare words are of kinds that no verb is about",
               .where = "rare",
               .expected = "a kind that is the subject or the object of some verb"});
}

std::string_view part(const std::string& text, TokenSpan bytes) {
  return std::string_view(text).substr(bytes.begin, bytes.end - bytes.begin);
}

int64_t characters_before(const std::string& text, int64_t byte) {
  return std::count_if(text.begin(), text.begin() + byte,
                       [](char one) { return !text::is_continuation(one); });
}

}  // namespace

std::vector<TreeSentence> probe_sentences(const ProbeLexicon& lexicon, int64_t count,
                                          uint64_t seed) {
  check_count(count);
  std::vector<TreeSentence> result;
  for (int64_t i = 0; i < count; ++i) {
    ProbeGrammar grammar(lexicon.words(), derived_seed(seed, i, 0, kSentences));
    result.push_back(write_phrase(grammar.sentence(), lexicon.words().before_vowel).sentence);
    result.back().id = fmt::format("probe-{}", i + 1);
  }
  return result;
}

std::vector<CoreferenceItem> probe_coreference(const ProbeLexicon& lexicon, int64_t count,
                                               uint64_t seed) {
  check_count(count);
  std::vector<CoreferenceItem> result;
  for (int64_t i = 0; i < count; ++i) {
    CoreferenceMaker maker(lexicon.words(), derived_seed(seed, i, 0, kCoreference), Arrangement(i));
    result.push_back(maker.make());
    result.back().id = fmt::format("probe-{}", i + 1);
  }
  return result;
}

std::vector<FieldItem> probe_fields(const ProbeLexicon& lexicon, int64_t count, uint64_t seed) {
  check_count(count);
  std::vector<FieldItem> result;
  for (int64_t i = 0; i < count && !lexicon.words().fields.empty(); ++i) {
    result.push_back(field_item(lexicon.words(), derived_seed(seed, i, 0, kFields)));
    result.back().id = fmt::format("field-{}", i + 1);
  }
  return result;
}

std::vector<RareItem> probe_rare(const ProbeLexicon& lexicon, int64_t count, uint64_t seed) {
  check_count(count);
  std::vector<RareItem> result;
  for (int64_t i = 0; i < count && !lexicon.words().rare.empty(); ++i) {
    result.push_back(rare_item(lexicon.words(), derived_seed(seed, i, 0, kRare)));
    result.back().id = fmt::format("rare-{}", i + 1);
  }
  return result;
}

std::string to_tsv(const std::vector<FieldItem>& items) {
  std::string out = "ID\tText\tWords\tOffsets\tFields\n";
  for (const FieldItem& item : items) {
    std::vector<std::string_view> words;
    std::vector<int64_t> offsets;
    for (const TokenSpan& bytes : item.words) {
      words.push_back(part(item.text, bytes));
      offsets.push_back(characters_before(item.text, bytes.begin));
    }
    fmt::format_to(std::back_inserter(out), "{}\t{}\t{}\t{}\t{}\n", item.id, item.text,
                   fmt::join(words, " "), fmt::join(offsets, " "), fmt::join(item.fields, " "));
  }
  return out;
}

std::string to_tsv(const std::vector<RareItem>& items) {
  std::string out = "ID\tText\tWord\tOffset\n";
  for (const RareItem& item : items) {
    fmt::format_to(std::back_inserter(out), "{}\t{}\t{}\t{}\n", item.id, item.text,
                   part(item.text, item.word), characters_before(item.text, item.word.begin));
  }
  return out;
}

}  // namespace headwise
