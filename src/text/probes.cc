// The built-in probes: sentences with trees, pronouns with names, semantic fields, rare words.
#include "headwise/text/probes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "core/shuffle.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/text/sample_text.h"
#include "io/file.h"
#include "io/folder_lock.h"
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

/// How one pronoun and two names of one gender stand. Over eight items each of the four
/// combinations of nearer or farther, first or second right name comes twice.
struct Arrangement {
  bool right_first;
  bool right_nearer;
  bool female;

  // Even and odd items alike, since the head is chosen on the one and measured on the other.
  explicit Arrangement(int64_t item)
      : right_first(item / 2 % 2 == 0),
        right_nearer(item / 4 % 2 == 0),
        female(item / 8 % 2 == 0) {}
};

std::string_view part(const std::string& text, TokenSpan bytes) {
  return std::string_view(text).substr(bytes.begin, bytes.end - bytes.begin);
}

int64_t characters_before(const std::string& text, int64_t byte) {
  return std::count_if(text.begin(), text.begin() + byte,
                       [](char one) { return !text::is_continuation(one); });
}

void shift(std::map<ProbeMark, TokenSpan>& marks, int64_t by) {
  for (auto& [mark, bytes] : marks) bytes = {bytes.begin + by, bytes.end + by};
}

/// Draws one item, in which grammar alone says who is meant.
class CoreferenceMaker {
 public:
  CoreferenceMaker(const Words& words, uint64_t seed, Arrangement arrangement)
      : words_(words), grammar_(words, seed, /*anonymous=*/true), arrangement_(arrangement) {}

  CoreferenceItem make() {
    if (arrangement_.right_nearer) return arrangement_.right_first ? before_other() : after_other();
    return arrangement_.right_first ? around_other() : behind_pronoun();
  }

 private:
  const PronounForms& forms() const { return arrangement_.female ? words_.she : words_.he; }

  Nominal name(bool right) {
    Nominal one = grammar_.name(arrangement_.female);
    one.phrase.mark = right ? ProbeMark::right_name : ProbeMark::wrong_name;
    return one;
  }

  static Nominal marked(const std::string& form) {
    Nominal one{.phrase = dependent(form, "PRON", "")};
    one.phrase.mark = ProbeMark::pronoun;
    return one;
  }

  /// "Anna read a book": without another name.
  Clause event(Nominal subject) {
    return grammar_.clause(
        {.verb = &grammar_.verb_of_people(), .subject = std::move(subject), .simple = true});
  }

  /// "Anna washed herself", "Anna read her book": the pronoun is bound by the subject.
  std::optional<Clause> binding(Nominal subject) {
    const bool reflexive = !forms().reflexive.empty() && grammar_.chance(.5);
    if (const Verb* const verb = reflexive ? grammar_.reflexive_verb() : nullptr) {
      return grammar_.clause({.verb = verb,
                              .subject = std::move(subject),
                              .object = marked(forms().reflexive),
                              .simple = true});
    }
    const auto [verb, kind] = grammar_.verb_of_owned();
    if (verb == nullptr) return {};
    Nominal owned = grammar_.owned_by(forms().possessive, kind);
    owned.phrase.before.front().mark = ProbeMark::pronoun;
    return grammar_.clause(
        {.verb = verb, .subject = std::move(subject), .object = std::move(owned), .simple = true});
  }

  /// "Because Mary slept, Anna read her book."
  CoreferenceItem after_other() {
    Clause other = event(name(false));
    if (auto about = binding(name(true)))
      return sentences(std::move(other), *std::move(about), true);
    CoreferenceItem item = sentences(std::move(other), event(name(true)), true);
    append(event(marked(forms().subject)), item);
    return item;
  }

  /// "Anna read her book because Mary slept."
  CoreferenceItem before_other() {
    auto about = binding(name(true));
    if (about) return sentences(*std::move(about), event(name(false)), false);
    CoreferenceItem item;
    append(event(name(true)), item);
    append(event(marked(forms().subject)), item);
    append(event(name(false)), item);
    return item;
  }

  /// "Anna, who greeted Mary, read her book.", "Anna greeted Mary. She read a book."
  CoreferenceItem around_other() {
    CoreferenceItem item;
    Nominal right = name(true);
    if (grammar_.chance(.67) && grammar_.add_relative_about(right, name(false))) {
      if (auto about = binding(std::move(right))) {
        append(*std::move(about), item);
        return item;
      }
      right = name(true);
    }
    append(grammar_.clause({.verb = &grammar_.verb_among_people(false),
                            .subject = std::move(right),
                            .object = name(false),
                            .simple = true}),
           item);
    append(event(marked(forms().subject)), item);
    return item;
  }

  /// "Because she greeted Mary, Anna read a book.": who greets somebody is somebody else.
  CoreferenceItem behind_pronoun() {
    Clause other = grammar_.clause({.verb = &grammar_.verb_among_people(false),
                                    .subject = marked(forms().subject),
                                    .object = name(false),
                                    .simple = true});
    return sentences(std::move(other), event(name(true)), true);
  }

  /// Two clauses: one that a subordinator makes part of the other, or two sentences.
  CoreferenceItem sentences(Clause first, Clause second, bool first_is_part) {
    CoreferenceItem item;
    const bool joined =
        grammar_.has_subordinators() && (arrangement_.right_first == arrangement_.right_nearer ||
                                         !arrangement_.right_nearer || grammar_.chance(.5));
    if (!joined) {
      append(std::move(first), item);
      append(std::move(second), item);
    } else if (first_is_part) {
      grammar_.subordinate(first.phrase);
      first.phrase.after.push_back(punctuation(","));
      second.phrase.before.insert(second.phrase.before.begin(), std::move(first.phrase));
      append(std::move(second), item);
    } else {
      grammar_.subordinate(second.phrase);
      first.phrase.after.push_back(std::move(second.phrase));
      append(std::move(first), item);
    }
    return item;
  }

  /// Another sentence.
  void append(Clause clause, CoreferenceItem& item) const {
    if (!item.text.empty()) item.text += ' ';
    write(ProbeGrammar::ended(std::move(clause)), item);
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
  Arrangement arrangement_;
};

/// Code points from the start of one span to that of another.
int64_t distance(const std::string& text, TokenSpan a, TokenSpan b) {
  return std::abs(characters_before(text, a.begin) - characters_before(text, b.begin));
}

/// None if the language has no two names of one gender.
std::optional<CoreferenceItem> coreference_item(const Words& words, uint64_t seed,
                                                Arrangement arrangement) {
  const auto has_two = [](const std::vector<std::string>& names) {
    return std::set<std::string>(names.begin(), names.end()).size() > 1;
  };
  if (!has_two(arrangement.female ? words.female : words.male))
    arrangement.female = !arrangement.female;
  if (!has_two(arrangement.female ? words.female : words.male)) return {};
  constexpr uint32_t kTries = 64;
  std::optional<CoreferenceItem> item;
  for (uint32_t i = 0; i < kTries; ++i) {  // a long phrase may make the other name the nearer one
    CoreferenceItem one =
        CoreferenceMaker(words, derived_seed(seed, i, 0, kCoreference), arrangement).make();
    if (part(one.text, one.right) == part(one.text, one.wrong)) continue;
    const bool nearer =
        distance(one.text, one.pronoun, one.right) < distance(one.text, one.pronoun, one.wrong);
    item = std::move(one);
    if (nearer == arrangement.right_nearer) break;
  }
  return item;
}

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
    auto item =
        coreference_item(lexicon.words(), derived_seed(seed, i, 0, kCoreference), Arrangement(i));
    if (!item) break;
    result.push_back(*std::move(item));
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

Probes make_probes(const ProbeLexicon& lexicon, int64_t count, uint64_t seed) {
  return {.sentences = probe_sentences(lexicon, count, seed),
          .coreference = probe_coreference(lexicon, count, seed),
          .fields = probe_fields(lexicon, count, seed),
          .rare = probe_rare(lexicon, count, seed)};
}

std::vector<std::string> write_probes(const Probes& probes, const ProbeLexicon& lexicon,
                                      const std::filesystem::path& folder) {
  make_folder(folder);
  const FolderLock lock(folder);
  std::vector<std::string> names;
  const auto write = [&](const char* name, std::string_view text) {
    write_file_whole(folder / name, text);
    names.emplace_back(name);
  };
  write("sentences.conllu", to_conllu(probes.sentences));
  write("coreference.tsv", to_gap(probes.coreference));
  write("fields.tsv", to_tsv(probes.fields));
  write("rare.tsv", to_tsv(probes.rare));
  write("lexicon.json", lexicon.source());
  write("text.txt", std::string(sample_text()).append(longer_sample_text()));
  return names;
}

}  // namespace headwise
