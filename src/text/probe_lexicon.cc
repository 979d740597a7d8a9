// Reads the words of the built-in probes from JSON, and refuses what no sentence can be made of.
#include "text/probe_lexicon.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "io/file.h"
#include "text/unicode.h"

namespace headwise {
namespace {

using nlohmann::json;
using Words = ProbeLexicon::Words;

constexpr size_t kLargestLexicon = 1 << 24;

bool is_word(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const uint16_t flags = text::flags_of(text::next_char(text, at));
    if ((flags & (text::kSpace | text::kControl)) != 0) return false;
  }
  return !text.empty();
}

/// Reads the fields of one lexicon; every message names the field.
class LexiconReader {
 public:
  LexiconReader(const json& value, const std::string& where) : root_(value, where) {}

  Words read() {
    root_.only({"language",     "adjectives_follow",
                "determiners",  "determiners_before_numerals",
                "before_vowel", "possessives",
                "genitive",     "possessed",
                "counted",      "numerals",
                "names",        "pronouns",
                "nouns",        "rare",
                "compounds",    "adjectives",
                "prepositions", "modifiers",
                "verbs",        "auxiliaries",
                "adverbs",      "subordinators",
                "coordinators", "relatives",
                "fields",       "field_sentences"});
    words_.language = root_.text("language");
    words_.adjectives_follow = root_.optional_boolean("adjectives_follow").value_or(false);
    read_nouns();
    read_determiners();
    read_people();
    read_adjectives();
    words_.prepositions = preposition_groups("prepositions", /*of_kinds=*/false);
    words_.modifiers = preposition_groups("modifiers", /*of_kinds=*/true);
    for (const JsonObject& verb : root_.objects("verbs")) read_verb(verb);
    if (root_.has("auxiliaries")) {
      for (const JsonObject& chain : root_.objects("auxiliaries")) read_auxiliary(chain);
    }
    read_small_words();
    read_fields();
    check_verbs();
    return std::move(words_);
  }

 private:
  static const std::string& checked(const JsonObject& object, std::string_view name,
                                    const std::string& word) {
    if (!is_word(word)) {
      object.refuse(name, "probe lexicon: this is no word",
                    "words without spaces, at least one letter each");
    }
    return word;
  }

  static std::string word(const JsonObject& object, std::string_view name) {
    return checked(object, name, object.text(name));
  }

  static std::vector<std::string> word_list(const JsonObject& object, std::string_view name) {
    std::vector<std::string> list = object.texts(name);
    if (list.empty()) object.refuse(name, "probe lexicon: a list is empty", "at least one word");
    for (const std::string& one : list) checked(object, name, one);
    return list;
  }

  static std::vector<std::string> optional_list(const JsonObject& object, std::string_view name) {
    return object.has(name) ? word_list(object, name) : std::vector<std::string>();
  }

  /// Kinds, each of which there are nouns of.
  std::vector<std::string> kinds(const JsonObject& object, std::string_view name) const {
    std::vector<std::string> list = word_list(object, name);
    for (const std::string& kind : list) check_kind(object, name, kind);
    return list;
  }

  void check_kind(const JsonObject& object, std::string_view name, const std::string& kind) const {
    if (words_.nouns.contains(kind)) return;
    std::vector<std::string> known;
    for (const auto& [one, nouns] : words_.nouns) known.push_back(one);
    object.refuse(name, fmt::format("probe lexicon: no nouns are of the kind {}", quote(kind)),
                  fmt::format("kinds of nouns: {}", fmt::join(known, ", ")));
  }

  /// "old", ["this", "these"] or {"f": ["vieille", "vieilles"], …}. With gaps one of two may be
  /// empty: ["a", ""].
  static AgreeingWord forms(const JsonObject& object, std::string_view name, const json& value,
                            bool gaps = false) {
    AgreeingWord result;
    const auto add = [&](const std::string& gender, const json& one) {
      if (one.is_string()) {
        result.forms.push_back({gender, one.get<std::string>(), one.get<std::string>()});
      } else if (one.is_array() && one.size() == 2 && one[0].is_string() && one[1].is_string()) {
        result.forms.push_back({gender, one[0].get<std::string>(), one[1].get<std::string>()});
      } else {
        object.refuse(name, "probe lexicon: these are no forms of a word",
                      "a word, [singular, plural], or one of these for each gender");
      }
      const auto& [_, singular, plural] = result.forms.back();
      if (!gaps || !singular.empty() || plural.empty()) checked(object, name, singular);
      if (!gaps || !plural.empty()) checked(object, name, plural);
    };
    if (!value.is_object() || value.empty()) {
      add("", value);
    } else {
      for (const auto& [gender, one] : value.items()) add(gender, one);
    }
    return result;
  }

  static std::vector<AgreeingWord> forms_list(const JsonObject& object, std::string_view name,
                                              bool gaps = false) {
    std::vector<AgreeingWord> list;
    if (!object.has(name)) return list;
    const json& value = object.value(name);
    if (!value.is_array() || value.empty()) {
      object.refuse(name, "probe lexicon: this is no list of words", "an array, not empty");
    }
    for (const json& one : value) list.push_back(forms(object, name, one, gaps));
    return list;
  }

  Words::ByKind<Noun> noun_table(const std::string& name) const {
    Words::ByKind<Noun> table;
    const JsonObject object = root_.object(name);
    for (const std::string& kind : object.names()) {
      const json& value = object.value(kind);
      const auto is_noun = [](const json& one) {
        return one.is_array() && (one.size() == 2 || one.size() == 3) &&
               std::ranges::all_of(one, [](const json& form) { return form.is_string(); });
      };
      if (!value.is_array() || value.empty() || !std::ranges::all_of(value, is_noun)) {
        object.refuse(kind, "probe lexicon: these are no nouns",
                      "a list of [singular, plural] or [singular, plural, gender]");
      }
      for (const json& one : value) {
        Noun noun{.singular = one[0].get<std::string>(), .plural = one[1].get<std::string>()};
        if (one.size() == 3) noun.gender = one[2].get<std::string>();
        checked(object, kind, noun.singular);
        checked(object, kind, noun.plural);
        table[kind].push_back(std::move(noun));
      }
    }
    return table;
  }

  void read_nouns() {
    words_.nouns = noun_table("nouns");
    if (!words_.nouns.contains(std::string(kPerson))) {
      root_.refuse("nouns", "probe lexicon: there are no people", "nouns of the kind \"person\"");
    }
    if (root_.has("rare")) {
      words_.rare = noun_table("rare");
      const JsonObject rare = root_.object("rare");
      for (const auto& [kind, nouns] : words_.rare) check_kind(rare, kind, kind);
    }
    if (root_.has("compounds")) {
      const JsonObject compounds = root_.object("compounds");
      for (const std::string& kind : compounds.names()) {
        check_kind(compounds, kind, kind);
        words_.compounds[kind] = word_list(compounds, kind);
      }
    }
    words_.numerals = optional_list(root_, "numerals");
  }

  void read_determiners() {
    words_.determiners = forms_list(root_, "determiners", true);
    words_.determiners_before_numerals = forms_list(root_, "determiners_before_numerals", true);
    if (root_.has("before_vowel")) {
      const JsonObject others = root_.object("before_vowel");
      for (const std::string& name : others.names()) {
        words_.before_vowel[name] = word(others, name);
      }
    }
    words_.possessives = forms_list(root_, "possessives");
    if (root_.has("genitive")) words_.genitive = word(root_, "genitive");
    if (root_.has("possessed")) words_.possessed = kinds(root_, "possessed");
    if (root_.has("counted")) words_.counted = kinds(root_, "counted");
  }

  static PronounForms pronoun(const JsonObject& object, bool possessive) {
    object.only({"subject", "object", "possessive", "reflexive"});
    PronounForms result{.subject = word(object, "subject"), .object = word(object, "object")};
    if (object.has("reflexive")) result.reflexive = word(object, "reflexive");
    if (possessive) result.possessive = forms(object, "possessive", object.value("possessive"));
    return result;
  }

  void read_people() {
    const JsonObject names = root_.object("names");
    names.only({"female", "male"});
    words_.female = word_list(names, "female");
    words_.male = word_list(names, "male");
    const JsonObject pronouns = root_.object("pronouns");
    pronouns.only({"female", "male", "plural"});
    words_.she = pronoun(pronouns.object("female"), true);
    words_.he = pronoun(pronouns.object("male"), true);
    if (words_.she.subject == words_.he.subject || words_.she.object == words_.he.object ||
        words_.she.possessive == words_.he.possessive) {
      pronouns.refuse("male", "probe lexicon: a pronoun does not tell male from female",
                      "other forms than those of \"female\"");
    }
    if (!pronouns.has("plural")) return;
    for (const JsonObject& one : pronouns.objects("plural")) {
      words_.they.push_back(pronoun(one, false));
    }
  }

  void read_adjectives() {
    if (!root_.has("adjectives")) return;
    const JsonObject adjectives = root_.object("adjectives");
    for (const std::string& kind : adjectives.names()) {
      check_kind(adjectives, kind, kind);
      const json& groups = adjectives.value(kind);
      if (!groups.is_array() || groups.empty()) {
        adjectives.refuse(kind, "probe lexicon: these are no groups of adjectives",
                          "a list of lists, in the order in which adjectives are said");
      }
      for (const json& group : groups) {
        const json in_object = {{kind, group}};
        const JsonObject one(in_object, root_.where("adjectives"));
        words_.adjectives[kind].push_back(forms_list(one, kind));
      }
    }
  }

  std::map<std::string, std::vector<PrepositionGroup>> preposition_groups(const std::string& name,
                                                                          bool of_kinds) const {
    std::map<std::string, std::vector<PrepositionGroup>> table;
    if (!root_.has(name)) return table;
    const JsonObject object = root_.object(name);
    for (const std::string& key : object.names()) {
      if (of_kinds) check_kind(object, key, key);
      for (const JsonObject& group : object.objects(key)) {
        group.only({"words", "kinds"});
        table[key].push_back({.words = word_list(group, "words"), .kinds = kinds(group, "kinds")});
      }
    }
    return table;
  }

  void read_verb(const JsonObject& object) {
    object.only({"present", "past", "infinitive", "participle", "gerund", "subject", "object",
                 "recipient", "adverbs", "obliques", "reflexive"});
    Verb verb{.present = forms(object, "present", object.value("present")),
              .past = forms(object, "past", object.value("past")),
              .infinitive = word(object, "infinitive"),
              .participle = word(object, "participle")};
    if (object.has("gerund")) verb.gerund = word(object, "gerund");
    verb.subject = kinds(object, "subject");
    if (object.has("object")) verb.object = kinds(object, "object");
    if (object.has("recipient")) {
      verb.recipient = kinds(object, "recipient");
      object.value("object");  // whoever gets something gets something
    }
    verb.reflexive = object.optional_boolean("reflexive").value_or(false);
    verb.adverbs = optional_list(object, "adverbs");
    verb.obliques = optional_list(object, "obliques");
    for (const std::string& name : verb.obliques) {
      const auto group = words_.prepositions.find(name);
      if (group == words_.prepositions.end() || group->second.empty()) {
        object.refuse("obliques", fmt::format("probe lexicon: {} are no prepositions", quote(name)),
                      "names of groups in \"prepositions\"");
      }
    }
    words_.verbs.push_back(std::move(verb));
  }

  void check_verbs() const {
    const auto holds = [](const std::vector<std::string>& list) {
      return std::ranges::find(list, kPerson) != list.end();
    };
    const auto is_of_people = [&](const Verb& v) { return holds(v.subject) && holds(v.object); };
    if (std::ranges::any_of(words_.verbs, [&](const Verb& verb) {
          return is_of_people(verb) && verb.recipient.empty();
        })) {
      return;
    }
    root_.refuse("verbs", "probe lexicon: no verb says what people do to people",
                 "at least one with \"person\" as its subject and its object");
  }

  void read_auxiliary(const JsonObject& object) {
    object.only({"words", "tense", "takes", "support", "stance"});
    AuxiliaryChain chain{.words = forms_list(object, "words"),
                         .support = object.optional_boolean("support").value_or(false),
                         .stance = object.optional_boolean("stance").value_or(true)};
    if (chain.words.empty()) object.value("words");
    const std::string& tense = object.text("tense");
    const std::string& takes = object.text("takes");
    if (tense != "present" && tense != "past") {
      object.refuse("tense", "probe lexicon: a tense is not known", "\"present\" or \"past\"");
    }
    if (takes != "infinitive" && takes != "participle" && takes != "gerund") {
      object.refuse("takes", "probe lexicon: a form of verbs is not known",
                    "\"infinitive\", \"participle\" or \"gerund\"");
    }
    chain.tense = tense == "present" ? Tense::present : Tense::past;
    chain.takes = takes == "infinitive"   ? VerbForm::infinitive
                  : takes == "participle" ? VerbForm::participle
                                          : VerbForm::gerund;
    words_.auxiliaries.push_back(std::move(chain));
  }

  void read_small_words() {
    if (root_.has("adverbs")) {
      const JsonObject adverbs = root_.object("adverbs");
      adverbs.only({"frequency", "stance", "negation", "negated", "degree", "opening", "closing"});
      words_.frequency = optional_list(adverbs, "frequency");
      words_.stance = optional_list(adverbs, "stance");
      words_.negated = optional_list(adverbs, "negated");
      words_.degree = optional_list(adverbs, "degree");
      words_.opening = optional_list(adverbs, "opening");
      words_.closing = optional_list(adverbs, "closing");
      if (adverbs.has("negation")) words_.negation = word(adverbs, "negation");
    }
    words_.subordinators = optional_list(root_, "subordinators");
    if (root_.has("coordinators")) {
      const JsonObject coordinators = root_.object("coordinators");
      coordinators.only({"nouns", "adjectives", "clauses"});
      words_.noun_coordinators = optional_list(coordinators, "nouns");
      words_.adjective_coordinators = optional_list(coordinators, "adjectives");
      words_.clause_coordinators = optional_list(coordinators, "clauses");
    }
    if (!root_.has("relatives")) return;
    for (const JsonObject& one : root_.objects("relatives")) {
      one.only({"kinds", "subject", "object"});
      words_.relatives.push_back({.kinds = kinds(one, "kinds"),
                                  .subject = word_list(one, "subject"),
                                  .object = word_list(one, "object")});
    }
  }

  void read_fields() {
    if (!root_.has("fields")) return;
    const JsonObject fields = root_.object("fields");
    std::set<std::string> all;
    for (const std::string& name : fields.names()) {
      checked(fields, name, name);
      words_.fields[name] = word_list(fields, name);
      for (const std::string& one : words_.fields[name]) {
        if (all.insert(one).second) continue;
        fields.refuse(name, fmt::format("probe lexicon: {} is there twice", quote(one)),
                      "every word in one field");
      }
      if (std::ssize(words_.fields[name]) < kFieldWords) {
        fields.refuse(name, "probe lexicon: a field has too few words",
                      fmt::format("at least {}", kFieldWords));
      }
    }
    if (std::ssize(words_.fields) < kFieldsPerText) {
      root_.refuse("fields", "probe lexicon: there are too few fields",
                   fmt::format("at least {}, or none", kFieldsPerText));
    }
    words_.field_sentences = root_.texts("field_sentences");
    for (const std::string& sentence : words_.field_sentences) {
      const size_t at = sentence.find("{}");
      if (at != sentence.npos && sentence.find("{}", at + 2) == sentence.npos &&
          sentence.find_first_of("\t\r\n") == sentence.npos) {
        continue;
      }
      root_.refuse("field_sentences", "probe lexicon: a sentence has no place for the words",
                   "one {} in each, and no tabs or line ends");
    }
    if (words_.field_sentences.empty()) {
      root_.refuse("field_sentences", "probe lexicon: a list is empty", "at least one sentence");
    }
  }

  JsonObject root_;
  Words words_;
};

}  // namespace

const std::string& AgreeingWord::form(const std::string& gender, Number number) const {
  const auto found = std::ranges::find(forms, gender, &Forms::gender);
  const Forms& one = found == forms.end() ? forms.front() : *found;
  return number == Number::singular ? one.singular : one.plural;
}

const std::string& Verb::form(VerbForm form) const {
  return form == VerbForm::infinitive   ? infinitive
         : form == VerbForm::participle ? participle
                                        : gerund;
}

ProbeLexicon::ProbeLexicon(std::string source, std::shared_ptr<const Words> words)
    : source_(std::move(source)), words_(std::move(words)) {}

ProbeLexicon ProbeLexicon::english() { return parse(english_lexicon(), "the English lexicon"); }

ProbeLexicon ProbeLexicon::read(const std::filesystem::path& file) {
  return parse(read_file(file, kLargestLexicon), file.string());
}

ProbeLexicon ProbeLexicon::parse(std::string_view text, const std::string& where) {
  const json value = parse_json(text, where);
  return {std::string(text), std::make_shared<const Words>(LexiconReader(value, where).read())};
}

const std::string& ProbeLexicon::language() const { return words_->language; }

}  // namespace headwise
