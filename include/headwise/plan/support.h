// Whether data support a plan.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "headwise/judge/verdict.h"
#include "headwise/plan/held_out.h"
#include "headwise/plan/plan.h"

namespace headwise {

/// Spearman's rank correlation with its 95 % interval and the two-sided p that it is not 0 (Bonett
/// and Wright 2000).
struct RankCorrelation {
  double value = 0;
  ConfidenceInterval interval{};
  double p = 1;
};
/// None of fewer than four pairs, and where all of one side are equal.
std::optional<RankCorrelation> rank_correlation(std::span<const double> a,
                                                std::span<const double> b);

/// Of gradients and ablations over the heads that have both.
std::optional<RankCorrelation> gradient_ablation_correlation(const Verdict& verdict);

/// Why the data do not support a plan; empty: they do. A plan is unsupported
/// - if more than half of the heads are undecided,
/// - if the interval of the rank correlation of gradient and ablation is not above 0,
/// - if on held-out examples the loss changes no less than in the median of as many heads removed
///   at random. Not tested without `held_out`.
/// Nothing supports a plan where ablations were not measured, or where nothing could be held out.
std::vector<std::string> reasons_against(const Verdict& verdict, const HeldOut* held_out);

/// Sets `supported` and `reasons` of a plan. A list of heads that somebody named needs no support.
void assess(const Verdict& verdict, Plan& plan);

}  // namespace headwise
