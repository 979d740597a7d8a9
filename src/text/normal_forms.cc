// Unicode's normal forms, with the alignment that the `tokenizers` package gives them.
#include <algorithm>
#include <utility>

#include "text/normalizer.h"
#include "text/unicode.h"

namespace headwise::text {
namespace {

struct Part {
  char32_t c;
  int32_t change;
  int combining_class;
};

class NormalForm : public Normalizer {
 public:
  NormalForm(bool compatibility, bool composed)
      : compatibility_(compatibility), composed_(composed) {}

  void apply(AlignedText& text) const override {
    if (is_normal(text.text())) return;
    std::vector<Part> parts = decomposed(text.text());
    std::vector<Change> changes;
    changes.reserve(parts.size());
    if (composed_) {
      compose_parts(parts, changes);
    } else {
      for (const Part& part : parts) changes.push_back({part.c, part.change});
    }
    text.transform(changes);
  }

 private:
  bool is_normal(std::string_view text) const {
    if (compatibility_) return is_ascii(text);
    const uint16_t* table = flag_table();
    const CharFlag flag = composed_ ? kComposes : kDecomposes;
    const char32_t first_affected = composed_ ? 0x300 : 0xC0;
    for (size_t at = 0; at < text.size();) {
      const char32_t c = next_char(text, at);
      if (c >= first_affected && (flags_of(table, c) & flag)) return false;
    }
    return true;
  }

  std::vector<Part> decomposed(std::string_view text) const {
    std::vector<Part> parts;
    parts.reserve(text.size());
    size_t sorted = 0;  // parts before it are in canonical order
    const auto sort_marks = [&] {
      if (parts.size() - sorted > 1)
        std::stable_sort(
            parts.begin() + static_cast<ptrdiff_t>(sorted), parts.end(),
            [](const Part& a, const Part& b) { return a.combining_class < b.combining_class; });
      sorted = parts.size();
    };
    for (size_t at = 0; at < text.size();) {
      char32_t codes[kLongestDecomposition];
      const char32_t c = next_char(text, at);
      const int count = c < 0x80 ? (codes[0] = c, 1) : decompose(c, compatibility_, codes);
      for (int i = 0; i < count; ++i) {
        const int ccc = codes[i] < 0x300 ? 0 : combining_class(codes[i]);
        if (ccc == 0) sort_marks();
        parts.push_back({codes[i], i > 0 ? 1 : 0, ccc});
      }
    }
    sort_marks();
    return parts;
  }

  // A starter waits for the marks that it may join with; `waiting` holds those it may not.
  static void compose_parts(const std::vector<Part>& parts, std::vector<Change>& out) {
    std::vector<Change> waiting;
    bool has_starter = false;
    Change starter;
    int last_class = -1;  // of the last mark in `waiting`; -1: none
    const auto flush = [&] {
      if (has_starter) out.push_back(starter);
      out.insert(out.end(), waiting.begin(), waiting.end());
      waiting.clear();
      last_class = -1;
    };
    for (const Part& part : parts) {
      if (!has_starter) {
        if (part.combining_class != 0) {
          out.push_back({part.c, part.change});
        } else {
          starter = {part.c, part.change};
          has_starter = true;
        }
        continue;
      }
      const bool blocked = last_class >= part.combining_class;
      const char32_t joined = blocked ? 0 : compose(starter.c, part.c);
      if (joined != 0) {
        starter = {joined, starter.change + part.change - 1};
      } else if (part.combining_class == 0) {
        flush();
        starter = {part.c, part.change};
      } else {
        waiting.push_back({part.c, part.change});
        last_class = part.combining_class;
      }
    }
    flush();
  }

  bool compatibility_;
  bool composed_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_normal_form(bool compatibility, bool composed) {
  return std::make_unique<NormalForm>(compatibility, composed);
}

}  // namespace headwise::text
