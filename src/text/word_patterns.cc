// The expressions that split text into words for byte-level BPE, alternative by alternative. Every
// alternative that starts at a character is tried in the order of the expression; together they
// match any text, so the matches follow each other without gaps.
#include "text/word_patterns.h"

#include "text/unicode.h"

namespace headwise::text {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text), table_(flag_table()) {}

  size_t size() const { return text_.size(); }
  bool is(size_t at, char byte) const { return at < text_.size() && text_[at] == byte; }
  bool is_newline(size_t at) const { return is(at, '\n') || is(at, '\r'); }

  /// The flags of the character at `at`; 0 at the end. `behind` is where the next one starts.
  uint16_t flags(size_t at, size_t& behind) const {
    behind = at;
    if (at >= text_.size()) return 0;
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x80) {
      behind = at + 1;
      return table_[byte];
    }
    return flags_of(table_, next_char(text_, behind));
  }
  uint16_t flags(size_t at) const {
    size_t behind;
    return flags(at, behind);
  }

  /// The end of the run of at most `most` characters that have one of the flags.
  size_t run(size_t at, uint16_t wanted, size_t most = SIZE_MAX) const {
    size_t behind = at;
    for (size_t i = 0; i < most && at < size() && (flags(at, behind) & wanted); ++i) at = behind;
    return at;
  }

  /// The end of the run of characters that have none of the flags.
  size_t run_without(size_t at, uint16_t unwanted) const {
    size_t behind = at;
    while (at < size() && !(flags(at, behind) & unwanted)) at = behind;
    return at;
  }

  /// (?!\S) behind \s+: all of the space at the end of the text, else all but the last of it, but
  /// at least one character.
  size_t space(size_t at) const {
    const size_t end = run(at, kSpace);
    if (end == size()) return end;
    size_t last = end;
    previous_char(text_, last);
    return last > at ? last : end;
  }

  /// \s*[\r\n]+: up to the last line break of the space; `at` if it has none.
  size_t line_breaks(size_t at) const {
    size_t end = at;
    size_t behind = at;
    for (size_t i = at; i < size() && (flags(i, behind) & kSpace); i = behind) {
      if (is_newline(i)) end = behind;
    }
    return end;
  }

  size_t newlines(size_t at, bool slashes) const {
    while (is_newline(at) || (slashes && is(at, '/'))) ++at;
    return at;
  }

  /// 's|'t|'re|'ve|'m|'ll|'d: its end, or `at`.
  size_t contraction(size_t at, bool any_case) const {
    if (!is(at, '\'') || at + 1 >= size()) return at;
    const auto lower = [&](size_t i) {
      const char c = i < size() ? text_[i] : '\0';
      return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char first = lower(at + 1);
    const char second = lower(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    if (any_case && text_.substr(at + 1, 2) == "\u017F") return at + 3;  // the long s
    return at;
  }

 private:
  std::string_view text_;
  const uint16_t* table_;
};

template <class MatchEnd>
void split(std::string_view text, std::vector<Match>& matches, MatchEnd match_end) {
  const Scanner scanner(text);
  for (size_t at = 0; at < text.size();) {
    const size_t end = match_end(scanner, at);
    matches.push_back({static_cast<uint32_t>(at), static_cast<uint32_t>(end)});
    at = end;
  }
}

// Behind the words and numbers: a run of anything else with one space before it, or space.
size_t other_or_space(const Scanner& scanner, size_t at, uint16_t not_other, bool slashes) {
  const size_t begin = at + (scanner.is(at, ' ') ? 1 : 0);
  const size_t end = scanner.run_without(begin, not_other);
  if (end > begin) return scanner.newlines(end, slashes);
  const size_t line = scanner.line_breaks(at);
  return line > at ? line : scanner.space(at);
}

}  // namespace

void Gpt2Words::find(std::string_view text, std::vector<Match>& matches) const {
  split(text, matches, [](const Scanner& scanner, size_t at) {
    if (const size_t end = scanner.contraction(at, false); end > at) return end;
    const size_t begin = at + (scanner.is(at, ' ') ? 1 : 0);
    size_t behind;
    const uint16_t flags = scanner.flags(begin, behind);
    if (begin == scanner.size() || (flags & kSpace)) return scanner.space(at);
    if (flags & kLetter) return scanner.run(behind, kLetter);
    if (flags & kNumber) return scanner.run(behind, kNumber);
    return scanner.run_without(behind, kSpace | kLetter | kNumber);
  });
}

void Cl100kWords::find(std::string_view text, std::vector<Match>& matches) const {
  const auto letter = static_cast<uint16_t>(kLetter | (marks_ ? kMark : 0));
  split(text, matches, [&](const Scanner& scanner, size_t at) {
    if (const size_t end = scanner.contraction(at, true); end > at) return end;
    size_t behind;
    const uint16_t flags = scanner.flags(at, behind);
    if (flags & letter) return scanner.run(behind, letter);
    if (flags & kNumber) return scanner.run(at, kNumber, static_cast<size_t>(digits_));
    if (!scanner.is_newline(at) && (scanner.flags(behind) & letter)) {
      return scanner.run(behind, letter);
    }
    return other_or_space(scanner, at, static_cast<uint16_t>(kSpace | kNumber | letter), false);
  });
}

namespace {

// [U]*[L]+ from `at`: its end, or `at`. What is in both classes may be given back to [L]+.
size_t upper_then_lower(const Scanner& scanner, size_t at) {
  size_t shared_end = at;  // behind the last character of the first run that is in both classes
  size_t end = at;
  size_t behind = at;
  for (uint16_t flags; end < scanner.size(); end = behind) {
    flags = scanner.flags(end, behind);
    if (!(flags & kUpperOrOther)) break;
    if (flags & kLowerOrOther) shared_end = behind;
  }
  const size_t lower_end = scanner.run(end, kLowerOrOther);
  return lower_end > end ? lower_end : shared_end;
}

// [U]+[L]* from `at`: its end, or `at`.
size_t upper_run(const Scanner& scanner, size_t at) {
  const size_t end = scanner.run(at, kUpperOrOther);
  return end > at ? scanner.run(end, kLowerOrOther) : at;
}

size_t o200k_word(const Scanner& scanner, size_t at) {
  size_t behind;
  const uint16_t flags = scanner.flags(at, behind);
  const bool may_lead = !(flags & (kLetter | kNumber)) && !scanner.is_newline(at);
  for (const auto word : {upper_then_lower, upper_run}) {
    if (may_lead) {
      if (const size_t end = word(scanner, behind); end > behind) return end;
    }
    if (const size_t end = word(scanner, at); end > at) return end;
  }
  return at;
}

}  // namespace

void O200kWords::find(std::string_view text, std::vector<Match>& matches) const {
  split(text, matches, [&](const Scanner& scanner, size_t at) {
    if (const size_t end = o200k_word(scanner, at); end > at) {
      return contractions_ ? scanner.contraction(end, true) : end;
    }
    if (scanner.flags(at) & kNumber) {
      return scanner.run(at, kNumber, static_cast<size_t>(digits_));
    }
    return other_or_space(scanner, at, kSpace | kLetter | kNumber, true);
  });
}

}  // namespace headwise::text
