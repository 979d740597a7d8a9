// The built-in probes: trees that are trees, texts that no fixed offset solves, and lexicons that
// are refused.
#include "headwise/text/probes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "io/io_testing.h"
#include "text/probe_lexicon.h"

namespace headwise {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const ProbeLexicon& english() {
  static const ProbeLexicon lexicon = ProbeLexicon::english();
  return lexicon;
}

std::string part(const std::string& text, TokenSpan bytes) {
  return text.substr(bytes.begin, bytes.end - bytes.begin);
}

/// As it is within a sentence.
std::string small(std::string word) {
  if (!word.empty()) word[0] = static_cast<char>(std::tolower(static_cast<uint8_t>(word[0])));
  return word;
}

/// The words of an English text, small.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (std::isalpha(static_cast<uint8_t>(c))) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  std::ranges::transform(words, words.begin(), small);
  return words;
}

TEST(ProbeSentences, AreTrees) {
  for (const TreeSentence& sentence : probe_sentences(english(), 1000, 1)) {
    SCOPED_TRACE(sentence.text);
    const int64_t n = std::ssize(sentence.words);
    int roots = 0;
    for (int64_t i = 0; i < n; ++i) {
      const TreeWord& word = sentence.words[i];
      ASSERT_TRUE(word.head >= -1 && word.head < n && word.head != i);
      EXPECT_EQ(word.head == -1, word.relation == "root");
      roots += word.head == -1 ? 1 : 0;
      int64_t up = i;
      for (int64_t steps = 0; up >= 0 && steps <= n; ++steps) up = sentence.words[up].head;
      EXPECT_EQ(up, -1) << "a cycle at " << word.form;
      // Projective: what lies between a word and its head hangs on one of the two.
      for (int64_t j = std::min(i, word.head) + 1; word.head >= 0 && j < std::max(i, word.head);
           ++j) {
        int64_t above = j;
        while (above >= 0 && above != i && above != word.head) above = sentence.words[above].head;
        EXPECT_GE(above, 0) << sentence.words[j].form << " lies under " << word.form;
      }
    }
    EXPECT_EQ(roots, 1);
  }
}

TEST(ProbeSentences, HaveWordsWhereTheirSpansSay) {
  for (const TreeSentence& sentence : probe_sentences(english(), 300, 2)) {
    SCOPED_TRACE(sentence.text);
    int64_t at = 0;
    for (const TreeWord& word : sentence.words) {
      EXPECT_EQ(part(sentence.text, word.bytes), word.form);
      EXPECT_TRUE(word.bytes.begin == at ||
                  (word.bytes.begin == at + 1 && sentence.text[at] == ' '));
      EXPECT_EQ(word.upos == "PUNCT", word.relation == "punct");
      at = word.bytes.end;
    }
    EXPECT_EQ(at, std::ssize(sentence.text));
    EXPECT_TRUE(sentence.text.ends_with('.') || sentence.text.ends_with('?'));
    EXPECT_TRUE(std::isupper(static_cast<unsigned char>(sentence.text.front())));
  }
}

TEST(ProbeSentences, Agree) {
  std::set<std::string> singular, plural;
  for (const auto* table : {&english().words().nouns, &english().words().rare}) {
    for (const auto& [kind, nouns] : *table) {
      for (const Noun& noun : nouns) {
        singular.insert(noun.singular);
        plural.insert(noun.plural);
      }
    }
  }
  for (const TreeSentence& sentence : probe_sentences(english(), 500, 3)) {
    SCOPED_TRACE(sentence.text);
    for (size_t i = 0; i < sentence.words.size(); ++i) {
      const TreeWord& word = sentence.words[i];
      const std::string form = small(word.form);
      EXPECT_TRUE(i == 0 || form != sentence.words[i - 1].form) << form << " twice";
      if (word.relation != "det" && word.relation != "nummod") continue;
      const std::string& noun = sentence.words[word.head].form;
      if (form == "a" || form == "an") {
        const bool vowel =
            std::string("aeiou").find(sentence.words[i + 1].form[0]) != std::string::npos;
        EXPECT_EQ(form == "an", vowel);
      }
      if (form == "a" || form == "an" || form == "this" || form == "that" || form == "every") {
        EXPECT_TRUE(singular.contains(noun)) << noun;
      }
      if (form == "some" || form == "these" || form == "those" || word.relation == "nummod") {
        EXPECT_TRUE(plural.contains(noun)) << noun;
      }
    }
  }
}

/// How often one offset leads from a word to its head, and from a head to such a word, for the best
/// offset of each relation.
struct BestOffset {
  double to_head = 0, to_dependent = 0;
  int64_t n = 0;
};

std::map<std::string, BestOffset> best_offsets(const std::vector<TreeSentence>& sentences,
                                               bool count_punctuation) {
  std::map<std::string, std::map<int64_t, int64_t>> to_head, to_dependent;
  std::map<std::string, int64_t> dependents, heads;
  for (const TreeSentence& sentence : sentences) {
    std::vector<int64_t> position;
    int64_t next = 0;
    for (const TreeWord& word : sentence.words) {
      position.push_back(next);
      if (count_punctuation || word.upos != "PUNCT") ++next;
    }
    std::set<std::pair<std::string, int64_t>> rows;
    for (size_t i = 0; i < sentence.words.size(); ++i) {
      const TreeWord& word = sentence.words[i];
      if (word.head < 0 || word.upos == "PUNCT") continue;
      const int64_t offset = position[word.head] - position[i];
      ++to_head[word.relation][offset];
      ++dependents[word.relation];
      ++to_dependent[word.relation][-offset];
      heads[word.relation] += rows.insert({word.relation, word.head}).second ? 1 : 0;
    }
  }
  std::map<std::string, BestOffset> result;
  for (const auto& [relation, n] : dependents) {
    const auto most = [](const std::map<int64_t, int64_t>& counts) {
      return static_cast<double>(
          std::ranges::max_element(counts, {}, [](auto& one) { return one.second; })->second);
    };
    result[relation] = {
        .to_head = most(to_head[relation]) / static_cast<double>(n),
        .to_dependent = most(to_dependent[relation]) / static_cast<double>(heads[relation]),
        .n = n};
  }
  return result;
}

void expect_balance(int64_t count, uint64_t seed, double bound) {
  const std::vector<TreeSentence> sentences = probe_sentences(english(), count, seed);
  for (const bool punctuation : {true, false}) {
    for (const auto& [relation, best] : best_offsets(sentences, punctuation)) {
      if (relation == "compound") continue;  // always beside its noun
      EXPECT_LE(best.to_head, bound) << relation << ", seed " << seed;
      EXPECT_LE(best.to_dependent, bound) << relation << ", seed " << seed;
    }
  }
}

TEST(ProbeSentences, AreNotSolvedByAnOffset) {
  // With verbs that compete, advmod to the dependent is the highest: 0.4546. Standard errors are
  // below 0.012, for n of some 900 at least. docs/probes.md names this bound.
  expect_balance(6000, 0, .46);
  for (const uint64_t seed : {0, 1, 2}) expect_balance(kProbeSentences, seed, .5);
}

/// How often the nearest verb, before or behind, is the one that the word belongs to.
std::map<std::string, double> found_by_nearest_verb(const std::vector<TreeSentence>& sentences) {
  std::map<std::string, double> right, n;
  for (const TreeSentence& sentence : sentences) {
    const auto& words = sentence.words;
    for (int64_t w = 0; w < std::ssize(words); ++w) {
      if (words[w].head < 0 || words[words[w].head].upos != "VERB") continue;
      std::vector<int64_t> nearest;
      for (int64_t v = 0; v < std::ssize(words); ++v) {
        if (words[v].upos != "VERB" || v == w) continue;
        const int64_t closer =
            nearest.empty() ? -1 : std::abs(v - w) - std::abs(nearest.front() - w);
        if (closer < 0) nearest.clear();
        if (closer <= 0) nearest.push_back(v);
      }
      ++n[words[w].relation];
      if (std::ranges::find(nearest, words[w].head) != nearest.end()) {
        right[words[w].relation] += 1. / static_cast<double>(nearest.size());
      }
    }
  }
  for (auto& [relation, share] : right) share /= n[relation];
  return right;
}

/// Verbs of relative and other clauses compete.
TEST(ProbeSentences, AreNotSolvedByTheNearestVerb) {
  const auto found = found_by_nearest_verb(probe_sentences(english(), 3000, 0));
  EXPECT_LT(found.at("nsubj"), .8);
  EXPECT_LT(found.at("obj"), .82);
  EXPECT_LT(found.at("obl"), .78);
  EXPECT_LT(found.at("advcl"), .62);
  EXPECT_LT(found.at("aux"), .9);
}

TEST(ProbeSentences, AreLong) {
  double words = 0, verbs = 0;
  for (const TreeSentence& sentence : probe_sentences(english(), 1000, 0)) {
    words += static_cast<double>(sentence.words.size());
    verbs += static_cast<double>(std::ranges::count(sentence.words, "VERB", &TreeWord::upos));
  }
  EXPECT_GT(words / 1000, 24);
  EXPECT_LT(words / 1000, 27);  // or a study would spend more on them
  EXPECT_GT(verbs / 1000, 2.4);
}

TEST(ProbeSentences, HaveEveryRelationOften) {
  const auto best = best_offsets(probe_sentences(english(), kProbeSentences, 0), true);
  std::map<std::string, int64_t> count;
  for (const auto& [relation, one] : best) count[relation] = one.n;
  for (const char* relation :
       {"det", "nsubj", "obj", "iobj", "amod", "nummod", "case", "nmod", "obl", "aux", "advmod",
        "mark", "advcl", "conj", "cc", "nmod:poss", "acl:relcl", "compound"}) {
    EXPECT_GE(count[relation], 40) << relation;
  }
}

TEST(ProbeSentences, FollowFromTheirSeedAndNumber) {
  const auto few = probe_sentences(english(), 20, 5), more = probe_sentences(english(), 40, 5);
  EXPECT_TRUE(std::ranges::equal(few, std::vector(more.begin(), more.begin() + 20)));
  EXPECT_NE(few, probe_sentences(english(), 20, 6));
  std::set<std::string> texts;
  for (const TreeSentence& sentence : probe_sentences(english(), 1000, 0))
    texts.insert(sentence.text);
  EXPECT_GT(texts.size(), 990u);
  EXPECT_THAT(error_of([] { probe_sentences(english(), -1, 0); }).what, HasSubstr("negative"));
}

/// What somebody who does not read the text would get right, of the even or the odd items.
TEST(ProbeCoreference, IsNotSolvedByAShortcut) {
  const auto items = probe_coreference(english(), 800, 0);
  std::map<std::string, int64_t> seen;  // how often each name is there, and is right
  std::map<std::string, int64_t> right;
  for (const CoreferenceItem& item : items) {
    for (const TokenSpan name : {item.right, item.wrong}) ++seen[part(item.text, name)];
    ++right[part(item.text, item.right)];
  }
  for (const int half : {0, 1}) {  // heads are chosen on one half
    int64_t nearest = 0, first = 0, before = 0, female = 0, usual = 0, n = 0;
    for (size_t i = half; i < items.size(); i += 2, ++n) {
      const CoreferenceItem& item = items[i];
      const auto distance = [&](TokenSpan name) {
        return std::abs(name.begin - item.pronoun.begin);
      };
      const auto often = [&](TokenSpan name) {
        const std::string text = part(item.text, name);
        return static_cast<double>(right[text]) / static_cast<double>(seen[text]);
      };
      nearest += distance(item.right) < distance(item.wrong) ? 1 : 0;
      first += item.right.begin < item.wrong.begin ? 1 : 0;
      before += item.pronoun.begin < item.right.begin ? 1 : 0;
      usual += often(item.right) > often(item.wrong) ? 1 : 0;
      female += std::ranges::count(english().words().female, part(item.text, item.right));
    }
    EXPECT_EQ(2 * nearest, n);
    EXPECT_EQ(2 * first, n);
    EXPECT_EQ(4 * before, n);  // the right name is the second and the farther one
    EXPECT_EQ(2 * female, n);
    EXPECT_NEAR(static_cast<double>(usual) / static_cast<double>(n), .5, .1);
  }
}

TEST(ProbeCoreference, HasTwoNamesOfOneGender) {
  const auto& words = english().words();
  const std::set<std::string> she = {"she", "her", "herself"}, he = {"he", "him", "his", "himself"};
  std::set<std::string> names;
  for (const auto* list : {&words.female, &words.male}) {
    std::ranges::transform(*list, std::inserter(names, names.end()), small);
  }
  std::set<std::string> pronouns;
  for (const CoreferenceItem& item : probe_coreference(english(), 200, 4)) {
    SCOPED_TRACE(item.text);
    const std::string pronoun = small(part(item.text, item.pronoun));
    pronouns.insert(pronoun);
    const bool female = she.contains(pronoun);
    EXPECT_NE(female, he.contains(pronoun));
    for (const TokenSpan name : {item.right, item.wrong}) {
      EXPECT_EQ(std::ranges::count(female ? words.female : words.male, part(item.text, name)), 1);
    }
    EXPECT_NE(part(item.text, item.right), part(item.text, item.wrong));
    // Nobody else, and no other pronoun.
    const auto mentions = std::ranges::count_if(words_of(item.text), [&](const std::string& word) {
      return names.contains(word) || she.contains(word) || he.contains(word);
    });
    EXPECT_EQ(mentions, 3);
  }
  EXPECT_THAT(pronouns,
              testing::UnorderedElementsAre("she", "her", "herself", "he", "his", "himself"));
  EXPECT_EQ(probe_coreference(english(), 9, 4), probe_coreference(english(), 9, 4));
}

TEST(ProbeCoreference, NeedsTwoNamesOfAGender) {
  json lexicon = json::parse(english().source());
  lexicon["names"]["male"] = {"Juan"};
  for (const CoreferenceItem& item :
       probe_coreference(ProbeLexicon::parse(lexicon.dump(), "w.json"), 16, 0)) {
    EXPECT_NE(part(item.text, item.right), "Juan");
  }
  lexicon["names"]["female"] = {"Ana"};
  EXPECT_TRUE(probe_coreference(ProbeLexicon::parse(lexicon.dump(), "w.json"), 16, 0).empty());
}

TEST(ProbeFields, SpreadThreeWordsOfEachField) {
  for (const FieldItem& item : probe_fields(english(), 100, 0)) {
    SCOPED_TRACE(item.text);
    ASSERT_EQ(item.words.size(), item.fields.size());
    std::map<std::string, int> count;
    for (size_t i = 0; i < item.words.size(); ++i) {
      const auto& field = english().words().fields.at(item.fields[i]);
      EXPECT_EQ(std::ranges::count(field, part(item.text, item.words[i])), 1);
      if (i > 0) {
        EXPECT_NE(item.fields[i], item.fields[i - 1]);
      }
      ++count[item.fields[i]];
    }
    EXPECT_EQ(count.size(), 4u);
    for (const auto& [field, n] : count) EXPECT_EQ(n, 3) << field;
  }
}

TEST(ProbeRare, HaveOneRareWord) {
  std::set<std::string> rare;
  for (const auto& [kind, nouns] : english().words().rare) {
    for (const Noun& noun : nouns) rare.insert({noun.singular, noun.plural});
  }
  std::set<std::string> seen;
  for (const RareItem& item : probe_rare(english(), 300, 0)) {
    SCOPED_TRACE(item.text);
    EXPECT_TRUE(rare.contains(small(part(item.text, item.word))));
    seen.insert(small(part(item.text, item.word)));
    EXPECT_EQ(std::ranges::count_if(words_of(item.text),
                                    [&](const std::string& word) { return rare.contains(word); }),
              1);
  }
  EXPECT_GT(seen.size(), 40u);
}

TEST(ProbeTables, HaveOneLinePerItem) {
  FieldItem field{.id = "f", .text = "é: a, b", .words = {{4, 5}, {7, 8}}, .fields = {"x", "y"}};
  EXPECT_EQ(to_tsv(std::vector{field}),
            "ID\tText\tWords\tOffsets\tFields\nf\té: a, b\ta b\t3 6\tx y\n");
  RareItem rare{.id = "r", .text = "é zoo.", .word = {3, 6}};
  EXPECT_EQ(to_tsv(std::vector{rare}), "ID\tText\tWord\tOffset\nr\té zoo.\tzoo\t2\n");
}

/// A language of few words, two genders, and adjectives behind the noun.
json small_lexicon() {
  return json::parse(R"({
    "language": "Small",
    "adjectives_follow": true,
    "determiners": [{"f": ["la", "las"], "m": ["el", "los"]}],
    "names": {"female": ["Ana", "Eva"], "male": ["Juan", "Luis"]},
    "pronouns": {"female": {"subject": "ella", "object": "a-ella", "possessive": "sua"},
                 "male": {"subject": "él", "object": "a-él", "possessive": "suo"}},
    "nouns": {"person": [["médica", "médicas", "f"], ["cocinero", "cocineros", "m"]]},
    "adjectives": {"person": [[{"f": ["alta", "altas"], "m": ["alto", "altos"]}]]},
    "verbs": [{"infinitive": "ver", "present": ["ve", "ven"], "past": ["vio", "vieron"],
               "participle": "visto", "subject": ["person"], "object": ["person"]}]
  })");
}

TEST(ProbeLexiconFile, MayBeSmallAndOfAnotherLanguage) {
  const TemporaryFolder folder;
  const auto file = folder.write("small.json", small_lexicon().dump());
  const ProbeLexicon lexicon = ProbeLexicon::read(file);
  EXPECT_EQ(lexicon.language(), "Small");
  int64_t adjectives = 0;
  for (const TreeSentence& sentence : probe_sentences(lexicon, 200, 0)) {
    SCOPED_TRACE(sentence.text);
    for (const TreeWord& word : sentence.words) {
      if (word.relation != "amod" && word.relation != "det") continue;
      const TreeWord& noun = sentence.words[word.head];
      const bool female = noun.form.starts_with("m") || noun.form.starts_with("M");
      EXPECT_EQ(female, word.form.find('a') != std::string::npos &&
                            word.form.find("o") == std::string::npos);
      if (word.relation == "det") continue;
      EXPECT_GT(word.bytes.begin, noun.bytes.begin);
      ++adjectives;
    }
  }
  EXPECT_GT(adjectives, 50);
  EXPECT_EQ(probe_coreference(lexicon, 32, 0).size(), 32u);
  EXPECT_TRUE(probe_fields(lexicon, 5, 0).empty());
  EXPECT_TRUE(probe_rare(lexicon, 5, 0).empty());
  bool accented = false;  // capital letters beyond ASCII
  for (const CoreferenceItem& item : probe_coreference(lexicon, 64, 0)) {
    accented |= item.text.find("Él") != std::string::npos;
  }
  EXPECT_TRUE(accented);
}

struct BadLexicon {
  const char* name;
  const char* pointer;  // what is changed
  const char* value;    // to this; empty: removed
  const char* where;    // in the error
};

class ProbeLexiconErrors : public testing::TestWithParam<BadLexicon> {};

TEST_P(ProbeLexiconErrors, NameTheField) {
  json lexicon = json::parse(english().source());
  const json::json_pointer pointer(GetParam().pointer);
  if (std::string_view(GetParam().value).empty()) {
    lexicon.at(pointer.parent_pointer()).erase(pointer.back());
  } else {
    lexicon[pointer] = json::parse(GetParam().value);
  }
  const ErrorDetail error = error_of([&] { ProbeLexicon::parse(lexicon.dump(), "words.json"); });
  EXPECT_THAT(error.where, HasSubstr("words.json"));
  EXPECT_THAT(error.where, HasSubstr(GetParam().where));
}

INSTANTIATE_TEST_SUITE_P(
    All, ProbeLexiconErrors,
    testing::Values(
        BadLexicon{"unknown", "/noun", "[]", "noun"}, BadLexicon{"no_verbs", "/verbs", "", "verbs"},
        BadLexicon{"no_people", "/nouns/person", "", "nouns"},
        BadLexicon{"no_nouns", "/nouns/animal", "[]", "nouns.animal"},
        BadLexicon{"one_form", "/nouns/animal/0", R"(["dog"])", "nouns.animal"},
        BadLexicon{"space", "/nouns/animal/0", R"(["sea horse", "sea horses"])", "nouns.animal"},
        BadLexicon{"tab", "/numerals/0", R"("two\t")", "numerals"},
        BadLexicon{"empty_word", "/numerals/0", R"("")", "numerals"},
        BadLexicon{"empty_list", "/numerals", "[]", "numerals"},
        BadLexicon{"kind", "/verbs/0/object", R"(["music"])", "verbs[0].object"},
        BadLexicon{"adjective_kind", "/adjectives/music", R"([["loud"]])", "adjectives.music"},
        BadLexicon{"adjective_group", "/adjectives/person", R"(["kind"])", "adjectives"},
        BadLexicon{"adjective_gap", "/adjectives/person/0/0", R"(["old", ""])", "adjectives"},
        BadLexicon{"oblique", "/verbs/0/obliques", R"(["where"])", "verbs[0].obliques"},
        BadLexicon{"no_participle", "/verbs/0/participle", "", "verbs[0].participle"},
        BadLexicon{"recipient_alone", "/verbs/41/recipient", R"(["person"])", "verbs[41].object"},
        BadLexicon{"tense", "/auxiliaries/0/tense", R"("future")", "auxiliaries[0].tense"},
        BadLexicon{"takes", "/auxiliaries/0/takes", R"("verbs")", "auxiliaries[0].takes"},
        BadLexicon{"determiner", "/determiners/0", R"(["", ""])", "determiners"},
        BadLexicon{"determiner_number", "/determiners/0", "1", "determiners"},
        BadLexicon{"same_pronoun", "/pronouns/male/object", R"("her")", "pronouns.male"},
        BadLexicon{"no_name", "/names/male", "", "names.male"},
        BadLexicon{"reflexive_verb", "/verbs/0/reflexive", R"("yes")", "verbs[0].reflexive"},
        BadLexicon{"reflexive_form", "/pronouns/male/reflexive", "[]", "pronouns.male.reflexive"},
        BadLexicon{"field_twice", "/fields/tool/0", R"("pear")", "fields.tool"},
        BadLexicon{"small_field", "/fields/tool", R"(["hammer"])", "fields.tool"},
        BadLexicon{"few_fields", "/fields", R"({"x": ["a", "b", "c"]})", "fields"},
        BadLexicon{"no_place", "/field_sentences/0", R"("Words.")", "field_sentences"},
        BadLexicon{"no_sentence", "/field_sentences", "", "field_sentences"},
        BadLexicon{"adverb_class", "/adverbs/often", R"(["often"])", "adverbs.often"},
        BadLexicon{"rare_kind", "/rare/music", R"([["fugue", "fugues"]])", "rare.music"}),
    [](const auto& info) { return info.param.name; });

TEST(ProbeLexiconFile, MustBeJsonWithPeopleWhoDoThingsToPeople) {
  EXPECT_THAT(error_of([] { ProbeLexicon::parse("{", "w.json"); }).where, HasSubstr("w.json"));
  EXPECT_THAT(error_of([] { ProbeLexicon::parse("[]", "w.json"); }).where, HasSubstr("w.json"));
  EXPECT_THAT(error_of([] { ProbeLexicon::read("/no/such/file.json"); }).where,
              HasSubstr("file.json"));
  json alone = small_lexicon();
  alone["verbs"][0].erase("object");
  EXPECT_THAT(error_of([&] { ProbeLexicon::parse(alone.dump(), "w.json"); }).where,
              HasSubstr("verbs"));
  json unused = small_lexicon();
  unused["nouns"]["star"] = {{"estrella", "estrellas", "f"}};
  unused["rare"]["star"] = {{"pulsar", "pulsares", "m"}};
  const ProbeLexicon lexicon = ProbeLexicon::parse(unused.dump(), "w.json");
  EXPECT_THAT(error_of([&] { probe_rare(lexicon, 1, 0); }).what, HasSubstr("rare words"));
}

}  // namespace
}  // namespace headwise
