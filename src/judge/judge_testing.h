// Evidence made by hand, for tests of verdicts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "headwise/judge/judge.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// Heads without any measure, over 100 texts of 20 tokens.
inline Evidence evidence_of(const std::vector<std::string>& heads) {
  Evidence evidence;
  evidence.model = {.name = "toy", .architecture = "BertModel", .sha256 = "00"};
  evidence.corpora["text"] = {.name = "texts", .sha256 = "11", .texts = 100, .tokens = 2000};
  for (const std::string& head : heads) evidence.heads.push_back({.head = head, .rows = 2000});
  return evidence;
}

/// A share or mean over all rows.
inline void see(Evidence& evidence, const std::string& head, const std::string& measure,
                double value, int64_t n = 2000) {
  evidence.head(head).measures.add(measure, {.value = value, .n = n});
}

/// An accuracy beside its baseline.
inline Measure share(double value, int64_t n, double baseline) {
  return {.value = value, .n = n, .interval = ConfidenceInterval{0, 1}, .baseline = baseline};
}

/// Four relations on probe sentences, as many as a role needs.
inline void find_relations_on_probes(Evidence& evidence, const std::string& head, double value,
                                     double baseline, int64_t n = 300) {
  for (const char* name : {"relation/case/to_head", "relation/obj/to_head",
                           "relation/obj/to_dependent", "relation/obl/to_head"}) {
    evidence.head(head).probes.add(name, share(value, n, baseline));
  }
}

/// What ablating the head costs, with an interval of ± spread.
inline void ablate_head(Evidence& evidence, const std::string& head, double value,
                        double spread = 0.001) {
  if (!evidence.loss) evidence.loss = LossEvidence{.task = "lm", .value = 2, .examples = 100};
  evidence.head(head).measures.add(
      "ablation_zero",
      {.value = value, .n = 100, .interval = ConfidenceInterval{value - spread, value + spread}});
}

/// A symmetric matrix of a layer; pairs that are not given have `other`.
inline PairMatrix matrix_of(const std::vector<std::string>& heads, double other,
                            const std::vector<std::pair<std::pair<int, int>, double>>& pairs) {
  PairMatrix matrix = pair_matrix(heads, other);
  for (const auto& [pair, value] : pairs) {
    matrix.at(pair.first, pair.second) = matrix.at(pair.second, pair.first) = value;
  }
  return matrix;
}

inline std::vector<std::string> role_names(const Verdict& verdict, const std::string& head) {
  std::vector<std::string> names;
  for (const Role& role : verdict.head(head).roles) names.push_back(role.role);
  return names;
}

}  // namespace headwise
