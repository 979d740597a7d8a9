// Chooses the heads to remove: in an order, until a budget is met, within constraints.
//
// docs/plan.md says what each order, budget and constraint means.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/model/model.h"
#include "headwise/observe/evaluation.h"
#include "headwise/plan/plan.h"

namespace headwise {

/// The order in which heads are removed.
enum class HeadOrder {
  gradient,         // those with the smallest gradient
  ablation,         // those whose ablation adds least to the loss
  entropy,          // those that spread their weight most
  random,           // any: the control
  redundant_first,  // redundant heads first, then the others; both by importance
  greedy,  // lowest ablation given the heads already removed; measured again after each step
};
std::string_view to_string(HeadOrder order);

/// By its name; throws Error that lists the names.
HeadOrder head_order(std::string_view name);
std::vector<std::string_view> head_order_names();

/// By ablation where the verdict has any, else by gradient.
HeadOrder default_order(const Verdict& verdict);

struct PlanOptions {
  // The budget. Exactly one is given; or none, but roles to keep: then all that may go goes.
  std::optional<double> keep{};      // at most this share of the heads stays
  std::optional<int64_t> heads{};    // at most so many stay
  std::optional<double> speedup{};   // of a forward pass, at least
  std::optional<double> max_loss{};  // the loss rises at most by this share of it
  std::string drop{};                // these go: "role:delimiter,L3.H1", see heads_of_list

  std::optional<HeadOrder> order{};  // none: default_order; not of heads that are named by `drop`

  // Constraints.
  int64_t at_least = 1;                   // heads that stay in every attention
  bool uniform = false;                   // the same number stays in every attention of a kind
  std::vector<std::string> keep_roles{};  // heads of these roles stay

  std::vector<HeadOrder> curves{};  // to be measured, beside random as their control
  int64_t draws = 5;                // of random orders, whose mean is the curve
  int64_t points = 16;              // of a curve, from no head to all that may go, evenly spaced
  int64_t more_points = 0;          // where a curve bends most; not of random
  int64_t random_sets = 10;         // as many heads at random, beside the plan on held-out examples
  int64_t step = 1;                 // greedy: heads that go before the others are measured again
  uint64_t seed = 0;
};

/// Data beyond the verdict.
struct PlanData {
  const EvaluationSet* evaluation = nullptr;  // for greedy, curves and `max_loss`
  /// What `expected`, curves and `held_out` are measured on: examples that did not choose heads.
  /// Null: those of `evaluation`, and nothing is said about held-out examples. An empty set: no
  /// loss is reported.
  const EvaluationSet* held_out = nullptr;

  /// The step that is under way ("greedy", "loss", "curves", "bends", "time"), work done and all of
  /// it. May throw to stop.
  std::function<void(std::string_view step, int64_t done, int64_t total)> progress{};
};

/// Heads whose standing is undecided are removed after those that are known to be replaceable or
/// harmful, and essential ones after these, in every order but random, which is the control.
/// Throws Error for a budget that cannot be met within the constraints, for an order by numbers
/// that the verdict has not, and if data are missing that must be measured on.
Plan plan(const Model& model, const Verdict& verdict, const PlanOptions& options,
          const PlanData& data = {});

/// From the verdict alone: what must be measured or is said by the weights is left out, and asking
/// for it throws Error.
Plan plan(const Verdict& verdict, const PlanOptions& options);

}  // namespace headwise
