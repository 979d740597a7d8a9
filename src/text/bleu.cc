// mteval-v13a's tokens, counted n-grams, and the score of their sums.
#include "headwise/text/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "headwise/core/error.h"
#include "text/unicode.h"

namespace headwise {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_stop(char c) { return c == '.' || c == ','; }

/// ASCII punctuation that is always a token: all but ' - . and ,
bool stands_alone(char c) {
  return (c > ' ' && c < '\'') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/// As Python's str.split() sees it.
bool is_python_space(char32_t c) {
  constexpr char32_t kFirstSeparator = 0x1C, kLastSeparator = 0x1F;
  return (c >= kFirstSeparator && c <= kLastSeparator) || (text::flags_of(c) & text::kSpace);
}

void replace_every(std::string& text, std::string_view from, std::string_view to) {
  size_t at = 0;
  while ((at = text.find(from, at)) != std::string::npos) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

void strip_end(std::string& text) {
  while (!text.empty()) {
    size_t at = text.size();
    const char32_t last = text::previous_char(text, at);
    if (!is_python_space(last)) return;
    text.resize(at);
  }
}

/// Two characters that match become `write(first, second)`; the search goes on behind them.
template <class Matches, class Write>
std::string rewrite_pairs(const std::string& text, const Matches& matches, const Write& write) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (i + 1 < text.size() && matches(text[i], text[i + 1])) {
      write(out, text[i], text[i + 1]);
      i += 2;
    } else {
      out += text[i++];
    }
  }
  return out;
}

// The passes are those of the reference implementation, one after the other: it is them that decide
// what becomes of ".," or "1.-2". Continuation bytes are no ASCII, so bytes do for characters.
std::string separate(const std::string& text) {
  std::string out = " ";
  for (const char c : text) {
    if (stands_alone(c)) {
      out.append({' ', c, ' '});
    } else {
      out += c;
    }
  }
  out += ' ';
  out = rewrite_pairs(
      out, [](char a, char b) { return !is_digit(a) && is_stop(b); },
      [](std::string& to, char a, char b) {
        to.append({a, ' ', b, ' '});
      });
  out = rewrite_pairs(
      out, [](char a, char b) { return is_stop(a) && !is_digit(b); },
      [](std::string& to, char a, char b) {
        to.append({' ', a, ' ', b});
      });
  return rewrite_pairs(
      out, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](std::string& to, char a, char b) {
        to.append({a, ' ', b, ' '});
      });
}

using Tokens = std::vector<std::string>;

Tokens tokenize_13a(const std::string& line) {
  std::string text = text::lossy_utf8(line);
  strip_end(text);
  replace_every(text, "<skipped>", "");
  replace_every(text, "-\n", "");
  replace_every(text, "\n", " ");
  replace_every(text, "&quot;", "\"");
  replace_every(text, "&amp;", "&");
  replace_every(text, "&lt;", "<");
  replace_every(text, "&gt;", ">");
  text = separate(text);
  Tokens tokens;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const bool space = is_python_space(text::next_char(text, at));
    if (!space) {
      if (!inside) tokens.emplace_back();
      tokens.back().append(text, begin, at - begin);
    }
    inside = !space;
  }
  return tokens;
}

using Counts = std::unordered_map<std::string, int64_t>;

/// The n-grams and how often each is there; no token contains a space.
Counts count_ngrams(const Tokens& tokens, size_t n) {
  Counts counts;
  for (size_t i = 0; i + n <= tokens.size(); ++i) {
    std::string ngram = tokens[i];
    for (size_t j = 1; j < n; ++j) ngram.append(1, ' ').append(tokens[i + j]);
    ++counts[ngram];
  }
  return counts;
}

void add_text(const Tokens& hypothesis, const Tokens& reference, Bleu& bleu) {
  bleu.hypothesis_length += std::ssize(hypothesis);
  bleu.reference_length += std::ssize(reference);
  for (size_t n = 1; n <= Bleu::kOrder; ++n) {
    const Counts wanted = count_ngrams(reference, n);
    for (const auto& [ngram, count] : count_ngrams(hypothesis, n)) {
      bleu.totals[n - 1] += count;
      const auto found = wanted.find(ngram);
      if (found != wanted.end()) bleu.matches[n - 1] += std::min(count, found->second);
    }
  }
}

void compute_score(Bleu& bleu) {
  if (bleu.hypothesis_length < bleu.reference_length) {
    const double ratio =
        static_cast<double>(bleu.reference_length) / static_cast<double>(bleu.hypothesis_length);
    bleu.brevity_penalty = bleu.hypothesis_length > 0 ? std::exp(1 - ratio) : 0;
  }
  if (bleu.matches[0] == 0) return;
  double smoothing = 1;
  double sum_of_logs = 0;
  for (size_t n = 0; n < Bleu::kOrder; ++n) {
    if (bleu.totals[n] == 0) return;  // no text is so long: the score is 0
    if (bleu.matches[n] == 0) smoothing *= 2;
    const double matches =
        bleu.matches[n] == 0 ? 1 / smoothing : static_cast<double>(bleu.matches[n]);
    bleu.precisions[n] = 100 * matches / static_cast<double>(bleu.totals[n]);
    sum_of_logs += std::log(bleu.precisions[n]);
  }
  bleu.score = bleu.brevity_penalty * std::exp(sum_of_logs / Bleu::kOrder);
}

}  // namespace

Bleu corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::string> references) {
  if (hypotheses.size() != references.size()) {
    throw Error({.what = "BLEU: hypotheses and references are not as many",
                 .where = "hypotheses",
                 .got = fmt::format("{} hypotheses", hypotheses.size()),
                 .expected = fmt::format("{}, one for each reference", references.size())});
  }
  if (references.empty()) throw Error({.what = "BLEU: there are no texts", .where = "references"});
  Bleu bleu;
  for (size_t i = 0; i < references.size(); ++i) {
    add_text(tokenize_13a(hypotheses[i]), tokenize_13a(references[i]), bleu);
  }
  compute_score(bleu);
  return bleu;
}

}  // namespace headwise
