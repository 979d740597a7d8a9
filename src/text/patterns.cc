// Patterns of tokenizer files, matched by hand; the expressions that are known.
#include "text/patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/unicode.h"
#include "text/word_patterns.h"

namespace headwise::text {
namespace {

class StringPattern : public Pattern {
 public:
  explicit StringPattern(std::string text) : text_(std::move(text)) {}
  void find(std::string_view text, std::vector<Match>& matches) const override {
    for (size_t at = text.find(text_); at != text.npos; at = text.find(text_, at + text_.size())) {
      matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(at + text_.size())});
    }
  }

 private:
  std::string text_;
};

/// Runs of at least `least` and at most `most` characters with a flag, or of one character.
struct Repeat {
  uint16_t flags;
  char32_t only;  // this character, unless 0
  size_t least;
  size_t most;
};

class RunPattern : public Pattern {
 public:
  explicit RunPattern(Repeat repeat) : repeat_(repeat) {}
  void find(std::string_view text, std::vector<Match>& matches) const override {
    const uint16_t* table = flag_table();
    const auto fits = [&](char32_t c) {
      return repeat_.only != 0 ? c == repeat_.only : (flags_of(table, c) & repeat_.flags) != 0;
    };
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      size_t count = 0;
      size_t behind = at;
      while (count < repeat_.most && behind < text.size() && fits(next_char(text, behind))) {
        at = behind;
        ++count;
      }
      if (count >= repeat_.least) {
        matches.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(at)});
      } else if (count == 0) {
        at = behind;
      }
    }
  }

 private:
  Repeat repeat_;
};

class ThreeDigits : public Pattern {
 public:
  void find(std::string_view text, std::vector<Match>& matches) const override {
    size_t digits = 0;
    for (size_t at = 0; at < text.size(); ++at) {
      digits = text[at] >= '0' && text[at] <= '9' ? digits + 1 : 0;
      if (digits < 3) continue;
      matches.push_back({static_cast<uint32_t>(at - 2), static_cast<uint32_t>(at + 1)});
      digits = 0;
    }
  }
};

template <class T, auto... arguments>
std::unique_ptr<const Pattern> make() {
  return std::make_unique<T>(arguments...);
}
template <Repeat repeat>
std::unique_ptr<const Pattern> make_run() {
  return std::make_unique<RunPattern>(repeat);
}

struct KnownExpression {
  const char* name;
  const char* expression;
  std::unique_ptr<const Pattern> (*make)();
};

constexpr size_t kMany = SIZE_MAX;
constexpr KnownExpression kKnown[] = {
    {"GPT-2's", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
     make<Gpt2Words>},
    {"Llama 3's",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     make<Cl100kWords, 3, false>},
    {"cl100k's",
     R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
     make<Cl100kWords, 3, false>},
    {"Qwen 2's", kQwen2Pattern, make<Cl100kWords, 1, false>},
    {"Qwen 3.5's",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     make<Cl100kWords, 1, true>},
    {"o200k's",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     make<O200kWords, 3, true>},
    {"Mistral's (Tekken)",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
     make<O200kWords, 1, false>},
    {R"(\s+)", R"(\s+)", make_run<Repeat{kSpace, 0, 1, kMany}>},
    {R"(\s{2,})", R"(\s{2,})", make_run<Repeat{kSpace, 0, 2, kMany}>},
    {"' +'", " +", make_run<Repeat{0, ' ', 1, kMany}>},
    {"' {2,}'", " {2,}", make_run<Repeat{0, ' ', 2, kMany}>},
    {R"(\p{N})", R"(\p{N})", make_run<Repeat{kNumber, 0, 1, 1}>},
    {R"(\p{N}+)", R"(\p{N}+)", make_run<Repeat{kNumber, 0, 1, kMany}>},
    {R"(\p{N}{1,3})", R"(\p{N}{1,3})", make_run<Repeat{kNumber, 0, 1, 3}>},
    {"[0-9][0-9][0-9]", "[0-9][0-9][0-9]", make<ThreeDigits>},
};

}  // namespace

std::string single_char(const JsonObject& part, const char* field) {
  const std::string& text = part.text(field);
  if (text.empty() || char_size(text[0]) != text.size()) {
    part.refuse(field, "tokenizer: not a single character", "one character");
  }
  return text;
}

std::unique_ptr<const Pattern> make_string_pattern(std::string text) {
  return std::make_unique<StringPattern>(std::move(text));
}

std::unique_ptr<const Pattern> make_gpt2_pattern() { return std::make_unique<Gpt2Words>(); }

std::unique_ptr<const Pattern> make_pattern(const JsonObject& part, const char* field) {
  const JsonObject pattern = part.object(field);
  if (pattern.has("String")) {
    const std::string& text = pattern.text("String");
    if (text.empty()) pattern.refuse("String", "tokenizer: a pattern is empty", "a text to find");
    return make_string_pattern(text);
  }
  const std::string& expression = pattern.text("Regex");
  for (const KnownExpression& known : kKnown) {
    if (expression == known.expression) return known.make();
  }
  std::string names;
  for (const KnownExpression& known : kKnown) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  pattern.refuse("Regex", "tokenizer: a regular expression that is not known", "one of: " + names,
                 "expressions are matched by hand-written code, one for each");
}

}  // namespace headwise::text
