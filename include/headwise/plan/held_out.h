// What a plan costs on examples that did not choose its heads.
//
// docs/formats.md describes the object "held_out" of plan.json and summary.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "headwise/observe/evidence.h"

namespace headwise {

/// A number without and with a plan.
struct BeforeAfter {
  double before = 0, after = 0;
  bool operator==(const BeforeAfter&) const = default;
};

struct HeldOut {
  int64_t examples = 0;   // 0: none were held out
  std::string reason{};   // why none were
  int64_t chosen_on = 0;  // the examples that chose the heads
  std::string source{};   // which examples these are, in words

  std::string task{};
  BeforeAfter loss{};
  double change = 0;                             // of the loss
  std::optional<ConfidenceInterval> interval{};  // 95 %, paired over examples
  int64_t tokens = 0;                            // that are scored, of token losses
  int64_t masks = 1;                             // see EvaluationSet

  /// As many heads removed at random, under the same constraints.
  struct Random {
    int64_t draws = 0;
    double change = 0, median = 0;  // mean and median of the draws
    bool operator==(const Random&) const = default;
  } random{};

  // What the change means.
  struct Neighbours {
    int64_t of = 0;   // nearest neighbours of a text among the others
    double kept = 0;  // so many of them are the same
    bool operator==(const Neighbours&) const = default;
  };
  std::optional<Neighbours> neighbours{};   // fidelity, similarity
  std::optional<BeforeAfter> perplexity{};  // losses of tokens
  std::optional<double> agreement{};        // classifiers: share of equal labels
  std::string score_name{};                 // "accuracy", "spearman", "bleu"; empty: none
  BeforeAfter score{};
  bool operator==(const HeldOut&) const = default;
};

/// The object "held_out".
std::string to_json(const HeldOut& held_out);

}  // namespace headwise
