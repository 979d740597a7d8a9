// Measured numbers about every head: the content of evidence.json.
//
// docs/formats.md describes the file; docs/measures.md says what each number means.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headwise {

/// A 95 % confidence interval.
struct ConfidenceInterval {
  double low = 0, high = 0;
  bool operator==(const ConfidenceInterval&) const = default;
};

/// One number about a head, and what it is a mean or a share of.
struct Measure {
  double value = 0;
  int64_t n = 0;  // 0: not of a sample, such as a rank of its weights
  std::optional<ConfidenceInterval> interval{};
  std::optional<double>
      baseline{};  // the score of a trivial predictor: the best fixed offset, the nearest name
  bool operator==(const Measure&) const = default;
};

/// Numbers by name. A name has parts, "offset_share/-1" or "relation/det/to_head": objects within
/// objects in the file.
class Measures {
 public:
  /// Overwrites a measure of the same name. NaN (not measured) is left out.
  void add(const std::string& name, const Measure& measure);

  const Measure* find(std::string_view name) const;  // null: not measured
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Measures&) const = default;

 private:
  std::map<std::string, Measure, std::less<>> entries_;
};

struct HeadEvidence {
  std::string head{};   // "L3.H1"
  int64_t rows = 0;     // of the corpus
  Measures measures{};  // on the data that was given, and of the weights
  Measures probes{};    // on the built-in probes
  bool operator==(const HeadEvidence&) const = default;
};

/// A number for every pair of heads; NaN: none.
struct PairMatrix {
  std::vector<std::string> heads{};  // of its rows and columns
  std::vector<double> values{};      // [heads, heads]

  double& at(int64_t row, int64_t column) { return values[row * std::ssize(heads) + column]; }
  double at(int64_t row, int64_t column) const { return values[row * std::ssize(heads) + column]; }
  bool operator==(const PairMatrix&) const = default;
};

PairMatrix pair_matrix(std::vector<std::string> heads,
                       double value = std::numeric_limits<double>::quiet_NaN());

/// The head that was chosen for a relation on one half of the data, and its score on the other.
struct BestHead {
  std::string head{};
  Measure chosen{};    // on items 0, 2, 4, …
  Measure measured{};  // on items 1, 3, 5, …
  bool operator==(const BestHead&) const = default;
};

/// The loss of the model with all its heads.
struct LossEvidence {
  std::string task{};
  double value = 0;
  int64_t examples = 0, tokens = 0;
  std::map<std::string, double> scores{};  // such as accuracy or BLEU
  /// Of each example, the positions of its tokens that were scored: those that were hidden, or a
  /// sample. Empty: all that could be.
  std::vector<std::vector<int32_t>> positions{};
  int64_t masks = 1;  // so many examples in a row are the same text, see EvaluationSet
  bool operator==(const LossEvidence&) const = default;
};

/// "L3" of "L3.H1".
inline std::string layer_of(const std::string& head) { return head.substr(0, head.rfind('.')); }

struct LayerEvidence {
  std::string layer{};  // "L3"
  Measures measures{};
  bool operator==(const LayerEvidence&) const = default;
};

/// Heads that were ablated together.
struct GroupEvidence {
  std::string name{};
  std::vector<std::string> heads{};
  Measures measures{};
  bool operator==(const GroupEvidence&) const = default;
};

struct Evidence {
  struct ModelIdentity {
    std::string name{}, architecture{}, sha256{};
    bool operator==(const ModelIdentity&) const = default;
  } model{};
  struct CorpusIdentity {
    std::string name{}, sha256{};
    int64_t texts = 0, tokens = 0;
    bool operator==(const CorpusIdentity&) const = default;
  };
  std::map<std::string, CorpusIdentity> corpora{};  // "text", "treebank", "coreference", "data"
  std::map<std::string, std::string> options{};     // the options of the observation, by name
  std::vector<std::string> finished{};              // parts that are in here, in their order

  std::vector<HeadEvidence> heads{};
  /// By name and group: pairs["js"]["L0"], pairs["subspace_overlap/q"]["L0"].
  std::map<std::string, std::map<std::string, PairMatrix>> pairs{};
  std::vector<LayerEvidence> layers{};
  std::map<std::string, BestHead> best{}, best_probes{};  // "relation/det/to_head", "coreference"
  std::vector<GroupEvidence> groups{};
  std::optional<LossEvidence> loss{};
  /// In a study: that of the examples that did not choose heads.
  std::optional<LossEvidence> held_out{};

  HeadEvidence& head(std::string_view name);  // throws Error if there is none
  const HeadEvidence& head(std::string_view name) const;
  bool operator==(const Evidence&) const = default;
};

/// Throws Error unless `left`, which an interrupted observation left in `file`, is of the same
/// model, data and options as `now`.
void check_continues(const Evidence& left, const Evidence& now, const std::string& file);

/// The text of evidence.json, and back. Throws Error for what is no evidence; `where` names the
/// text in messages.
std::string to_json(const Evidence& evidence);
Evidence evidence_from_json(std::string_view text, const std::string& where);

/// The evidence of a file, or of the folder of a study. Throws Error for what cannot be read; of
/// another stage's file it says so.
Evidence read_evidence(const std::filesystem::path& file);

/// The heads as a table with commas: a row per head, a column per number under its path in the
/// file with dots ("relation.det.to_head", "probes.coreference"), and beside it `_low`, `_high`,
/// `_baseline` and `_n` where a number has them. What was not measured of a head is empty.
std::string to_csv(const Evidence& evidence);

}  // namespace headwise
