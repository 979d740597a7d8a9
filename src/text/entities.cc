// Pronouns and their antecedents from `Entity=` annotations (CorefUD): mentions are brackets around
// words, "(e5-person-1" … "e5)", each named after the entity that it is a mention of.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string_view>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/text/treebank.h"
#include "text/conllu_reader.h"

namespace headwise {
namespace {

constexpr size_t kMostSentences = 4;     // of a text, the pronoun's included
constexpr size_t kMostTextBytes = 2000;  // of a text
constexpr size_t kMostOpen = 100;        // mentions at once

struct Mention {
  std::string entity{}, type{};  // type empty: the file has none
  int64_t first = 0, last = 0;   // words
  TokenSpan bytes{};             // of its sentence
  bool pronoun = false;
};

struct Sentence {
  std::string id{}, text{};
  std::vector<Mention> mentions{};  // by where they begin
};

std::vector<std::string_view> split_parts(std::string_view text) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find('-', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
  }
  return parts;
}

/// Which part of a bracket is the entity, and which its type.
struct Parts {
  size_t entity = 0, type = std::string_view::npos;
  explicit Parts(std::string_view names) {
    const std::vector<std::string_view> all = split_parts(names);
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] == "eid" || all[i] == "GRP") entity = i;
      if (all[i] == "etype" || all[i] == "entity") type = i;
    }
  }
};

/// The mentions of one sentence from its brackets.
class Mentions {
 public:
  Mentions(const ConlluReader& reader, const ConlluSentence& sentence)
      : reader_(reader), sentence_(sentence), parts_(reader.entity_parts()) {
    for (const EntityBrackets& brackets : sentence.entities) read(brackets);
    if (!open_.empty()) {
      refuse(open_.back().line, "a mention does not end", open_.back().mention.entity,
             "a closing bracket in its sentence");
    }
    std::ranges::stable_sort(found_, {}, [](const Mention& m) { return m.bytes.begin; });
  }

  std::vector<Mention> take() { return std::move(found_); }

 private:
  struct Open {
    Mention mention{};
    bool is_part = false;  // of a mention with words between its parts
    int64_t line = 0;
  };

  void read(const EntityBrackets& brackets) {
    const std::string_view text = brackets.text;
    for (size_t at = 0; at < text.size();) {
      const bool opens = text[at] == '(';
      const size_t end = std::min(text.find_first_of("()", at + opens), text.size());
      const bool closes = end < text.size() && text[end] == ')';
      const std::string_view inside = text.substr(at + opens, end - at - opens);
      if (inside.empty() || (!opens && !closes)) {
        refuse(brackets.line, "brackets of entities that do not fit together", quote(text),
               "such as (e5-person(e6) or e5)");
      }
      if (opens) open(inside, brackets);
      if (closes) close(opens ? open_.size() - 1 : find(inside, brackets), brackets);
      at = end + closes;
    }
  }

  void open(std::string_view inside, const EntityBrackets& brackets) {
    const std::vector<std::string_view> parts = split_parts(inside);
    if (parts.size() <= parts_.entity || parts[parts_.entity].empty()) {
      refuse(brackets.line, "a mention without an entity", quote(inside),
             fmt::format("{} parts with \"-\" between them", parts_.entity + 1),
             "the comment \"# global.Entity\" names the parts");
    }
    if (parts.size() > 1 && reader_.entity_parts().empty()) {
      refuse(brackets.line, "nothing says what the parts of a mention are", quote(inside),
             "the comment \"# global.Entity\" before it", "# global.Entity = eid-etype-head-other");
    }
    if (open_.size() == kMostOpen) {
      refuse(brackets.line, "too many mentions within each other", quote(brackets.text),
             fmt::format("at most {}", kMostOpen));
    }
    std::string_view entity = parts[parts_.entity];
    const size_t part = std::min(entity.find('['), entity.size());  // e5[1/2]
    open_.push_back(
        {.mention = {.entity = std::string(entity.substr(0, part)),
                     .type = std::string(parts_.type < parts.size() ? parts[parts_.type] : ""),
                     .first = brackets.first},
         .is_part = part < entity.size(),
         .line = brackets.line});
  }

  /// The innermost open mention of the entity that closes.
  size_t find(std::string_view inside, const EntityBrackets& brackets) const {
    const std::vector<std::string_view> parts = split_parts(inside);
    const std::string_view entity = parts[parts.size() > parts_.entity ? parts_.entity : 0];
    const std::string_view name = entity.substr(0, entity.find('['));
    for (size_t i = open_.size(); i-- > 0;) {
      if (open_[i].mention.entity == name) return i;
    }
    refuse(brackets.line, "a mention ends that did not begin", quote(inside),
           "an opening bracket in its sentence");
  }

  /// What is only an empty node has no text, and what has words of others within has no one place.
  void close(size_t index, const EntityBrackets& brackets) {
    Open& open = open_[index];
    Mention& mention = open.mention;
    mention.last = brackets.last;
    if (mention.first <= mention.last && !open.is_part) {
      const auto words =
          std::span(sentence_.words).subspan(mention.first, mention.last - mention.first + 1);
      mention.pronoun = words.size() == 1 && words.front().upos == "PRON";
      mention.bytes = words.front().bytes;
      for (const ConlluWord& word : words) {
        mention.bytes.begin = std::min(mention.bytes.begin, word.bytes.begin);
        mention.bytes.end = std::max(mention.bytes.end, word.bytes.end);
      }
      found_.push_back(std::move(mention));
    }
    open_.erase(open_.begin() + static_cast<ptrdiff_t>(index));
  }

  [[noreturn]] void refuse(int64_t line, const char* what, std::string got, std::string expected,
                           const char* hint = "") const {
    throw Error({.what = fmt::format("conllu: {}", what),
                 .where = reader_.where(line),
                 .got = std::move(got),
                 .expected = std::move(expected),
                 .hint = hint});
  }

  const ConlluReader& reader_;
  const ConlluSentence& sentence_;
  Parts parts_;
  std::vector<Open> open_;
  std::vector<Mention> found_;
};

/// A mention among the last sentences of a document.
struct Place {
  size_t sentence = 0;
  const Mention* mention = nullptr;
};

/// The nearest mention before a pronoun of the last sentence that is a name (or any other phrase)
/// and that `fits`.
template <class Fits>
Place nearest(const std::deque<Sentence>& sentences, const Mention& pronoun, const Fits& fits) {
  size_t bytes = 0;
  for (size_t s = sentences.size(); s-- > 0 && bytes <= kMostTextBytes;) {
    const std::vector<Mention>& mentions = sentences[s].mentions;
    for (size_t m = mentions.size(); m-- > 0;) {
      const Place place{s, &mentions[m]};
      const bool before = s + 1 < sentences.size() || mentions[m].bytes.end <= pronoun.bytes.begin;
      if (before && !mentions[m].pronoun && fits(place)) return place;
    }
    bytes += sentences[s].text.size() + 1;
  }
  return {};
}

void add_item(const std::deque<Sentence>& sentences, const Mention& pronoun,
              std::vector<CoreferenceItem>& items) {
  const Place right = nearest(sentences, pronoun, [&](const Place& place) {
    return place.mention->entity == pronoun.entity;
  });
  if (right.mention == nullptr) return;
  const Place wrong = nearest(sentences, pronoun, [&](const Place& place) {
    const Mention &a = *place.mention, &b = *right.mention;
    const bool overlaps = place.sentence == right.sentence && a.bytes.begin < b.bytes.end &&
                          b.bytes.begin < a.bytes.end;
    return a.entity != b.entity && a.type == b.type && !overlaps;
  });
  if (wrong.mention == nullptr) return;

  CoreferenceItem item{.id = fmt::format("{}, word {}", sentences.back().id, pronoun.first + 1)};
  const auto shifted = [&](const Mention& mention) {
    const int64_t by = std::ssize(item.text);
    return TokenSpan{mention.bytes.begin + by, mention.bytes.end + by};
  };
  for (size_t s = std::min(right.sentence, wrong.sentence); s < sentences.size(); ++s) {
    if (!item.text.empty()) item.text += ' ';
    if (s == right.sentence) item.right = shifted(*right.mention);
    if (s == wrong.sentence) item.wrong = shifted(*wrong.mention);
    if (s + 1 == sentences.size()) item.pronoun = shifted(pronoun);
    item.text += sentences[s].text;
    if (item.text.size() > kMostTextBytes) return;
  }
  items.push_back(std::move(item));
}

}  // namespace

std::vector<CoreferenceItem> read_entities(const std::filesystem::path& file) {
  ConlluReader reader(file);
  std::vector<CoreferenceItem> items;
  std::deque<Sentence> sentences;  // the last ones of the document
  bool annotated = false;
  for (ConlluSentence sentence; reader.next(sentence);) {
    if (sentence.begins_document) sentences.clear();
    if (sentences.size() == kMostSentences) sentences.pop_front();
    annotated |= !sentence.entities.empty();
    std::vector<Mention> mentions = Mentions(reader, sentence).take();
    sentences.push_back({std::move(sentence.id), std::move(sentence.text), std::move(mentions)});
    for (const Mention& mention : sentences.back().mentions) {
      if (mention.pronoun) add_item(sentences, mention, items);
    }
  }
  if (!annotated) {
    throw Error({.what = "conllu: no entities",
                 .where = file.string(),
                 .got = "no \"Entity=\" in the last column",
                 .expected = "mentions of entities in brackets",
                 .hint = "treebanks of CorefUD have them; so do the GUM treebanks"});
  }
  return items;
}

}  // namespace headwise
