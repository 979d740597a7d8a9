// Treebanks: sentences of CoNLL-U whose words make up a tree.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/io/json.h"
#include "headwise/text/treebank.h"
#include "text/conllu_reader.h"

namespace headwise {
namespace {

/// Every head has a number for each of them.
constexpr size_t kMostLabels = 1000;

class TreeReader {
 public:
  explicit TreeReader(const std::filesystem::path& file) : reader_(file) {}

  std::vector<TreeSentence> read() {
    std::vector<TreeSentence> sentences;
    for (ConlluSentence sentence; reader_.next(sentence);) {
      for (const ConlluWord& word : sentence.words) {
        check_word(word, std::ssize(sentence.words));
      }
      check_tree(sentence.words);
      TreeSentence& tree = sentences.emplace_back();
      tree.id = std::move(sentence.id);
      tree.text = std::move(sentence.text);
      for (ConlluWord& word : sentence.words) {
        tree.words.push_back({.form = std::move(word.form),
                              .upos = std::move(word.upos),
                              .relation = std::move(word.relation),
                              .head = *word.head - 1,
                              .bytes = word.bytes});
      }
    }
    return sentences;
  }

 private:
  void check_word(const ConlluWord& word, int64_t words) {
    if (!word.head || *word.head > words) {
      refuse(word, "the head of a word is not in its sentence",
             word.head ? fmt::format("{}", *word.head) : "_",
             fmt::format("a word from 1 to {}, or 0 for the root", words),
             "a treebank has a tree for every sentence");
    }
    check_label(word, "part of speech", word.upos, tags_);
    check_label(word, "relation", word.relation, relations_);
    if (word.relation == "_") {
      refuse(word, "a word without a relation", "_", "the relation to its head");
    }
  }

  void check_label(const ConlluWord& word, const char* kind, const std::string& label,
                   std::set<std::string>& known) {
    if (label.empty() || label.find('/') != label.npos) {
      refuse(word, fmt::format("no {}", kind), quote(label), "a name without \"/\"");
    }
    if (known.insert(label).second && known.size() > kMostLabels) {
      refuse(word, fmt::format("too many names of a {}", kind), quote(label),
             fmt::format("at most {} different ones", kMostLabels),
             "is another column in its place?");
    }
  }

  /// Every word leads to the one root.
  void check_tree(const std::vector<ConlluWord>& words) const {
    enum : uint8_t { kUnknown, kOnTheWay, kRooted };
    std::vector<uint8_t> state(words.size(), kUnknown);
    std::vector<int64_t> way;
    const ConlluWord* root = nullptr;
    for (const ConlluWord& word : words) {
      if (*word.head > 0) continue;
      if (root != nullptr) {
        refuse(word, "a sentence has two roots", quote(word.form),
               fmt::format("only {}, line {}", quote(root->form), root->line));
      }
      root = &word;
    }
    for (int64_t i = 0; i < std::ssize(words); ++i) {
      int64_t at = i;
      for (; at >= 0 && state[at] == kUnknown; at = *words[at].head - 1) {
        state[at] = kOnTheWay;
        way.push_back(at);
      }
      if (at >= 0 && state[at] == kOnTheWay) {
        refuse(words[at], "the heads of words go in a circle", quote(words[at].form),
               "a tree: heads lead to the root");
      }
      for (const int64_t word : way) state[word] = kRooted;
      way.clear();
    }
  }

  [[noreturn]] void refuse(const ConlluWord& word, std::string_view what, std::string got,
                           std::string expected, const char* hint = "") const {
    throw Error({.what = fmt::format("conllu: {}", what),
                 .where = reader_.where(word.line),
                 .got = std::move(got),
                 .expected = std::move(expected),
                 .hint = hint});
  }

  ConlluReader reader_;
  std::set<std::string> tags_, relations_;
};

/// Words that share characters, which are then one token of several words.
struct WrittenToken {
  int64_t first = 0, end = 0;
  TokenSpan bytes{};
};

std::vector<WrittenToken> written_tokens(const TreeSentence& sentence) {
  std::vector<WrittenToken> tokens;
  for (int64_t i = 0; i < std::ssize(sentence.words); ++i) {
    WrittenToken token{i, i + 1, sentence.words[i].bytes};
    for (; !tokens.empty() && token.bytes.begin < tokens.back().bytes.end; tokens.pop_back()) {
      const WrittenToken& before = tokens.back();
      token.first = before.first;
      token.bytes = {std::min(before.bytes.begin, token.bytes.begin),
                     std::max(before.bytes.end, token.bytes.end)};
    }
    tokens.push_back(token);
  }
  return tokens;
}

/// A column, or what a comment says.
const std::string& written(const std::string& text, const TreeSentence& sentence,
                           const char* never = "\t\r\n") {
  if (text.empty() || text.find_first_of(never) != text.npos) {
    throw Error({.what = "conllu: this cannot be written",
                 .where = sentence.id,
                 .got = quote(text),
                 .expected = "text without tabs and line ends"});
  }
  return text;
}

}  // namespace

std::vector<TreeSentence> read_conllu(const std::filesystem::path& file) {
  std::vector<TreeSentence> sentences = TreeReader(file).read();
  if (!sentences.empty()) return sentences;
  throw Error({.what = "conllu: the treebank has no sentences",
               .where = file.string(),
               .expected = "at least one sentence"});
}

std::string to_conllu(const std::vector<TreeSentence>& sentences) {
  std::string out;
  const auto add = [&out]<class... T>(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(out), format, std::forward<T>(values)...);
  };
  for (const TreeSentence& sentence : sentences) {
    add("# sent_id = {}\n# text = {}\n", written(sentence.id, sentence, "\r\n"),
        written(sentence.text, sentence, "\r\n"));
    const std::vector<WrittenToken> tokens = written_tokens(sentence);
    for (size_t t = 0; t < tokens.size(); ++t) {
      const auto& [first, end, bytes] = tokens[t];
      const std::string form = sentence.text.substr(bytes.begin, bytes.end - bytes.begin);
      const bool joined = t + 1 < tokens.size() && tokens[t + 1].bytes.begin == bytes.end;
      const char* const misc = joined ? "SpaceAfter=No" : "_";
      const bool alone = end == first + 1 && sentence.words[first].form == form;
      if (!alone) add("{}-{}\t{}\t_\t_\t_\t_\t_\t_\t_\t{}\n", first + 1, end, form, misc);
      for (int64_t i = first; i < end; ++i) {
        const TreeWord& word = sentence.words[i];
        add("{}\t{}\t_\t{}\t_\t_\t{}\t{}\t_\t{}\n", i + 1, written(word.form, sentence),
            written(word.upos, sentence), word.head + 1, written(word.relation, sentence),
            alone ? misc : "_");
      }
    }
    out += '\n';
  }
  return out;
}

}  // namespace headwise
