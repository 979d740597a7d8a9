// Importance of heads: the change of a loss when heads are ablated, alone and together, and its
// gradient with respect to their gates.
//
// docs/measures.md says what each number means.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/evaluation.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// The importance class of a head, from the interval of its ablation.
enum class Standing {
  essential,    // the loss rises by more than is tolerated
  harmful,      // it falls
  replaceable,  // it rises by no more than is tolerated
  undecided,
};
std::string_view to_string(Standing standing);

/// Under fidelity no head is harmful.
Standing standing(const ConfidenceInterval& interval, double tolerance, LossTask task);

inline constexpr double kUsualTolerance = 0.005;

/// The tolerated rise of the loss: `share` of the loss, or for fidelity, which is 0 for the
/// unchanged model, `share` itself.
double tolerance_of(LossTask task, double loss, double share = kUsualTolerance);

/// The tolerance of the adaptive ablations of an evidence, else the default. Throws Error for an
/// invalid value.
double tolerated_share(const Evidence& evidence);

struct NamedHeads {
  std::string name{};
  std::vector<int64_t> heads{};  // among all heads of the model, see AttentionSite::first
};

struct ImportanceOptions {
  bool gradient = true;
  bool ablation_zero = true;
  bool ablation_mean = true;

  std::vector<int64_t> heads{};  // those that are measured; empty: all
  std::vector<float> gates{};    // [heads] of the model that is measured; empty: all 1

  /// Adaptive ablation: stop adding examples for a head once its standing at this tolerance (see
  /// tolerance_of) is decided. None: every head gets all examples.
  std::optional<double> adaptive_tolerance{};

  /// Spend examples and draws only while they can change a conclusion. None: all of them.
  struct Adaptive {
    double passes = std::numeric_limits<double>::infinity();  // of ablations that may be spent
    int64_t gradient_examples = 32;                           // a sample for gradients
    int64_t group_examples = 32;                              // likewise for groups
    /// Further examples of the same task for heads that the set leaves undecided, or none. Needs
    /// `adaptive_tolerance`.
    const EvaluationSet* more = nullptr;
  };
  std::optional<Adaptive> adaptive{};

  /// Groups that are ablated together, each compared with halves of it and with as many random
  /// heads.
  std::vector<NamedHeads> groups{};
  bool layers = false;  // every attention as a group, without halves and random heads

  /// Synergy of pairs of heads: of one attention, or of all.
  enum class Pairs { none, attention, all } pairs = Pairs::none;

  bool bleu = false;  // with references: the BLEU of what the model writes by itself, too

  int64_t draws = 20;        // of halves and of random heads
  int64_t resamples = 1000;  // of the bootstrap
  uint64_t seed = 0;

  /// The current step ("gradient", "ablation", "translation", "groups", "pairs"), work
  /// done and all of it. May throw to stop.
  std::function<void(std::string_view step, int64_t done, int64_t total)> progress{};
};

/// Adds to the heads of the evidence: gradient, gradient_normalised, ablation_zero and
/// ablation_mean, with the examples that each got as n; to its loss, unless only gradients are
/// asked for; to its groups ablation_zero,
/// and of named ones ablation_zero_half, ablation_zero_random and above_random; to its pairs
/// synergy. Heads that do not affect the loss are left out, also of groups. Returns the cost of all
/// ablations in forward passes over the set. Throws Error if the examples do not fit the model.
double observe_importance(const Model& model, const EvaluationSet& set,
                          const ImportanceOptions& options, Evidence& evidence);

/// Adds groups to evidence of the same model, and measures nothing else of it again. Throws Error,
/// before it measures them, if the loss is not that of the evidence. Returns the work as above.
double append_groups(const Model& model, const EvaluationSet& set, const ImportanceOptions& options,
                     Evidence& evidence);

}  // namespace headwise
