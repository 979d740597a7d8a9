// Cuts lines into columns, and finds the words in their text.
#include "text/conllu_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "text/unicode.h"

namespace headwise {
namespace {

constexpr size_t kColumnCount = 10;
constexpr int64_t kMostWordsOfToken = 100;  // so that finding them in it stays cheap

// What stands in which column.
constexpr size_t kId = 0, kForm = 1, kUpos = 3, kHead = 6, kRelation = 7, kMisc = 9;

using Columns = std::array<std::string_view, kColumnCount>;

bool is_space(char32_t c) { return (text::flags_of(c) & text::kSpace) != 0; }

size_t skip_space(std::string_view text, size_t at) {
  for (size_t behind = at; behind < text.size(); at = behind) {
    if (!is_space(text::next_char(text, behind))) break;
  }
  return at;
}

std::string_view trimmed_of_space(std::string_view text) {
  text.remove_prefix(skip_space(text, 0));
  for (size_t end = text.size(); end > 0; text = text.substr(0, end)) {
    if (!is_space(text::previous_char(text, end))) break;
  }
  return text;
}

std::optional<int64_t> number(std::string_view text) {
  int64_t value = 0;
  if (text.empty() || text.front() == '-') return {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// The value of an attribute of MISC; empty if it is not there.
std::string_view attribute(std::string_view misc, std::string_view name) {
  for (size_t begin = 0, end; begin <= misc.size(); begin = end + 1) {
    end = std::min(misc.find('|', begin), misc.size());
    const std::string_view one = misc.substr(begin, end - begin);
    if (one.size() > name.size() && one.starts_with(name) && one[name.size()] == '=') {
      return one.substr(name.size() + 1);
    }
  }
  return {};
}

/// The words of a token share its text. Those whose form is found, in their order, have this and
/// what follows; others have what is left between those, or the whole token if nothing is.
void place_words(std::string_view text, TokenSpan token, std::span<ConlluWord> words) {
  std::vector<bool> found(words.size());
  int64_t at = token.begin;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& form = words[i].form;
    const size_t begin = text.substr(0, token.end).find(form, at);
    if (begin == std::string_view::npos) continue;
    found[i] = true;
    at = static_cast<int64_t>(begin + form.size());
    words[i].bytes = {static_cast<int64_t>(begin), at};
  }
  const auto part = [&](int64_t begin, int64_t end) -> TokenSpan {
    const std::string_view inner = trimmed_of_space(text.substr(begin, end - begin));
    begin = inner.data() - text.data();
    return {begin, begin + std::ssize(inner)};
  };
  at = token.begin;
  for (size_t i = 0, end; i < words.size(); i = end) {
    end = i + 1;
    while (!found[i] && end < words.size() && !found[end]) ++end;
    const int64_t next = end == words.size() ? token.end : words[end].bytes.begin;
    TokenSpan own = words[i].bytes;
    if (found[i]) {
      own = part(i == 0 ? at : own.begin, end == words.size() || found[end] ? next : own.end);
      at = own.end;
    } else {
      own = part(at, next);
      if (own.begin == own.end) own = token;
    }
    for (size_t j = i; j < end; ++j) words[j].bytes = own;
  }
}

}  // namespace

struct ConlluReader::Draft {
  ConlluSentence& sentence;
  std::optional<std::string> text{};
  bool has_id = false;
  std::vector<Token> tokens{};
  int64_t empty_nodes = 0;  // since the last word

  int64_t words() const { return std::ssize(sentence.words); }
  bool begun() const { return !tokens.empty() || empty_nodes > 0; }
  bool described() const { return text || has_id; }
  /// Words that the last token still lacks.
  bool in_token() const { return !tokens.empty() && words() < tokens.back().end; }
};

std::string ConlluReader::where(int64_t line) const {
  return fmt::format("{}, line {}", lines_.path().string(), line);
}

void ConlluReader::refuse(int64_t line, const char* what, std::string got, std::string expected,
                          const char* hint) const {
  throw Error({.what = fmt::format("conllu: {}", what),
               .where = where(line),
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = hint});
}

bool ConlluReader::next(ConlluSentence& sentence) {
  sentence = {};
  Draft draft{.sentence = sentence};
  for (std::string_view line; lines_.next(line) && !(line.empty() && draft.begun());) {
    if (line.starts_with('#')) {
      read_comment(line, draft);
    } else if (!line.empty()) {
      read_line(line, draft);
    } else if (draft.described()) {
      break;
    }
  }
  if (!draft.begun() && !draft.described()) return false;
  finish(draft);
  ++sentences_;
  if (!draft.has_id) sentence.id = fmt::format("sentence {}", sentences_);
  sentence.begins_document = std::exchange(begins_document_, false);
  return true;
}

void ConlluReader::read_comment(std::string_view line, Draft& draft) {
  if (draft.begun()) {
    refuse(lines_.line(), "a comment within a sentence", quote(line), "the next word",
           "an empty line ends a sentence; is it missing?");
  }
  const size_t equals = std::min(line.find('='), line.size());
  const std::string_view name = trimmed_of_space(line.substr(1, equals - 1));
  const std::string_view value = trimmed_of_space(line.substr(std::min(equals + 1, line.size())));
  const auto once = [&](bool before) {
    if (before) {
      refuse(lines_.line(), "a sentence has a comment twice", quote(line), "one of this name",
             "an empty line ends a sentence; is it missing?");
    }
  };
  if (name == "text" && equals < line.size()) {
    once(draft.text.has_value());
    draft.text = value;
  } else if (name == "sent_id" && !value.empty()) {
    once(draft.has_id);
    draft.has_id = true;
    draft.sentence.id = value;
  } else if (name == "newdoc" || name == "newdoc id") {
    begins_document_ = true;
  } else if (name == "global.Entity") {
    entity_parts_ = value;
  }
}

void ConlluReader::read_line(std::string_view line, Draft& draft) const {
  const int64_t at = lines_.line();
  Columns columns;
  size_t count = 0;
  for (size_t begin = 0, end; begin <= line.size(); begin = end + 1, ++count) {
    end = std::min(line.find('\t', begin), line.size());
    if (count < kColumnCount) columns[count] = line.substr(begin, end - begin);
  }
  if (count != kColumnCount) {
    refuse(at, "a line has other columns", fmt::format("{} ({})", count, quote(line)),
           fmt::format("{}, separated by tabs", kColumnCount),
           "sentences are separated by lines that are quite empty");
  }
  const std::string_view id = columns[kId];
  const int64_t next = draft.words() + 1;
  const size_t sign = std::min(id.find_first_of("-."), id.size());
  const auto first = number(id.substr(0, sign));
  const auto second = number(id.substr(std::min(sign + 1, id.size())));
  const bool is_range = sign < id.size() && id[sign] == '-',
             is_empty = sign < id.size() && !is_range;
  const auto expect_id = [&](bool fits) {
    if (fits) return;
    refuse(at, "the words of a sentence are not counted from 1", quote(id),
           fmt::format("{}, or {}-… for a token of several words, or {}.{} for an empty node", next,
                       next, next - 1, draft.empty_nodes + 1),
           "an empty line ends a sentence; is it missing?");
  };
  const std::string_view entity = attribute(columns[kMisc], "Entity");
  if (is_empty) {
    expect_id(first == next - 1 && second == draft.empty_nodes + 1);
    ++draft.empty_nodes;
    if (!entity.empty()) {
      draft.sentence.entities.push_back({std::string(entity), next - 1, next - 2, at});
    }
    return;
  }
  const std::string_view form = columns[kForm];
  if (form.empty() || trimmed_of_space(form).size() != form.size()) {
    refuse(at, "a word without a form", quote(form), "a form without space around it");
  }
  const bool space_after = attribute(columns[kMisc], "SpaceAfter") != "No";
  expect_id(first == next);
  if (is_range) {
    expect_id(second && *second >= next && !draft.in_token());
    if (*second - next >= kMostWordsOfToken) {
      refuse(at, "a token has too many words", quote(id),
             fmt::format("at most {} words", kMostWordsOfToken));
    }
    draft.tokens.push_back({std::string(form), next - 1, *second, space_after, at});
    return;
  }
  expect_id(sign == id.size());
  const auto head = number(columns[kHead]);
  if (!head && columns[kHead] != "_") {
    refuse(at, "a head that is no word", quote(columns[kHead]), "the number of a word, or 0");
  }
  if (!draft.in_token()) {
    draft.tokens.push_back({std::string(form), next - 1, next, space_after, at});
  }
  if (!entity.empty()) {
    draft.sentence.entities.push_back({std::string(entity), next - 1, next - 1, at});
  }
  draft.sentence.words.push_back({.form = std::string(form),
                                  .upos = std::string(columns[kUpos]),
                                  .relation = std::string(columns[kRelation]),
                                  .head = head,
                                  .line = at});
  draft.empty_nodes = 0;
}

void ConlluReader::finish(Draft& draft) const {
  ConlluSentence& sentence = draft.sentence;
  if (sentence.words.empty()) {
    refuse(lines_.line(), "a sentence without words", "only what describes it",
           "a line for each word");
  }
  if (draft.in_token()) {
    refuse(draft.tokens.back().line, "a token lacks words",
           fmt::format("{} words in the sentence", draft.words()),
           fmt::format("{}, as its range says", draft.tokens.back().end));
  }
  if (draft.text) {
    sentence.text = *draft.text;
  } else {
    for (const Token& token : draft.tokens) {
      sentence.text += token.form;
      if (token.space_after && &token != &draft.tokens.back()) sentence.text += ' ';
    }
  }
  place(draft, sentence);
}

void ConlluReader::place(const Draft& draft, ConlluSentence& sentence) const {
  const std::string_view text = sentence.text;
  size_t at = 0;
  for (const Token& token : draft.tokens) {
    at = skip_space(text, at);
    if (!text.substr(at).starts_with(token.form)) {
      refuse(token.line, "a word is not in the text where it should be", quote(token.form),
             fmt::format("as the text goes on: {}", quote(text.substr(at))),
             "the comment \"# text\" has all words in their order");
    }
    const TokenSpan bytes = {static_cast<int64_t>(at),
                             std::ssize(token.form) + static_cast<int64_t>(at)};
    place_words(text, bytes,
                std::span(sentence.words).subspan(token.first, token.end - token.first));
    at += token.form.size();
  }
  at = skip_space(text, at);
  if (at < text.size()) {
    refuse(sentence.words.back().line, "the text goes on after the last word",
           quote(text.substr(at)), "the end of the text",
           "the comment \"# text\" has all words in their order; was the file cut?");
  }
}

}  // namespace headwise
