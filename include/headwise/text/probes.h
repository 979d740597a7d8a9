// Built-in probes: synthetic texts from a small grammar and a lexicon, with known answers about
// syntax, pronouns, rare words and semantic fields. They need only a tokenizer.
//
// Every text is a function of the lexicon, the seed and its number: more of them begin with the
// same ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/text/tokenizer.h"
#include "headwise/text/treebank.h"

namespace headwise {

/// The default number of each kind, enough for intervals of a few percent. Sentences with trees are
/// longer than the others, and fewer are measured.
inline constexpr int64_t kProbeCount = 400;
inline constexpr int64_t kProbeSentences = 300;

/// The words of a language by class, as docs/probes.md describes them. The grammar is that of
/// English; classes that a language lacks are left out, and with them what they are needed for.
class ProbeLexicon {
 public:
  static ProbeLexicon english();

  /// Reads a JSON file. Throws Error with the field for an invalid lexicon.
  static ProbeLexicon read(const std::filesystem::path& file);
  static ProbeLexicon parse(std::string_view json, const std::string& where);

  const std::string& language() const;
  const std::string& source() const { return source_; }  // the JSON that it was read from

  struct Words;  // only the library knows it
  const Words& words() const { return *words_; }

 private:
  ProbeLexicon(std::string source, std::shared_ptr<const Words> words);
  std::string source_;
  std::shared_ptr<const Words> words_;
};

/// A text with words of several semantic fields, three of each, those of one field never side by
/// side.
struct FieldItem {
  std::string id{};
  std::string text{};
  std::vector<TokenSpan> words{};     // bytes of the text, in their order
  std::vector<std::string> fields{};  // of each word: "fruit"
  bool operator==(const FieldItem&) const = default;
};

/// A sentence of common words but one.
struct RareItem {
  std::string id{};
  std::string text{};
  TokenSpan word{};  // the rare one: bytes of the text
  bool operator==(const RareItem&) const = default;
};

/// Sentences with trees as Universal Dependencies (version 2) draws them. How many words lie
/// between a word and its syntactic head varies, so that no fixed offset finds more than about 46 %
/// of any relation, in either direction; only compound has no choice.
std::vector<TreeSentence> probe_sentences(const ProbeLexicon& lexicon, int64_t count,
                                          uint64_t seed);

/// Pronouns and two names of one gender, of which grammar allows one. In every 16 items (8 with
/// even, 8 with odd numbers) the right name is the nearer one in half, the first one in half, each
/// combination as often; where it is the second and the farther one, the pronoun is before it.
/// Empty if the lexicon has no two names of one gender.
std::vector<CoreferenceItem> probe_coreference(const ProbeLexicon& lexicon, int64_t count,
                                               uint64_t seed);

/// Empty if the lexicon has fewer than four fields, or no rare words.
std::vector<FieldItem> probe_fields(const ProbeLexicon& lexicon, int64_t count, uint64_t seed);
std::vector<RareItem> probe_rare(const ProbeLexicon& lexicon, int64_t count, uint64_t seed);

/// All probes of a lexicon, `count` of each kind.
struct Probes {
  std::vector<TreeSentence> sentences{};
  std::vector<CoreferenceItem> coreference{};
  std::vector<FieldItem> fields{};
  std::vector<RareItem> rare{};
};
Probes make_probes(const ProbeLexicon& lexicon, int64_t count, uint64_t seed);

/// Writes sentences.conllu, coreference.tsv, fields.tsv, rare.tsv, the words as lexicon.json, and
/// the built-in texts as text.txt. Returns these names. The folder is made if it is not there.
std::vector<std::string> write_probes(const Probes& probes, const ProbeLexicon& lexicon,
                                      const std::filesystem::path& folder);

/// Tab-separated, with a line of column names; offsets count characters, as GAP's do.
std::string to_tsv(const std::vector<FieldItem>& items);
std::string to_tsv(const std::vector<RareItem>& items);

}  // namespace headwise
