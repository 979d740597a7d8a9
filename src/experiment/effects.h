// From tests to outcomes: an effect is there, is absent, or is not decided.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "experiment/experiment_kind.h"

namespace headwise {

enum class Effect {
  there,   // corrected p < 0.05, and the figure is at least the smallest that matters
  absent,  // the whole interval lies below the smallest that matters
  open,
};

/// Of each test of a family, corrected for all of them. `smallest`: of each test, or one of all.
/// Figures are so oriented that the claim says that they are above 0.
std::vector<Effect> effects_of(std::span<const ClaimTest> family, std::span<const double> smallest);
std::vector<Effect> effects_of(std::span<const ClaimTest> family, double smallest);

/// A test that an estimate is above `threshold`, as the claim says.
ClaimTest test_above(std::string name, const Estimate& estimate, double threshold = 0);

/// confirmed: all effects are there; refuted: all are absent; depends, on what is given: some are
/// there and some are absent; else not decided.
void decide(std::span<const Effect> effects, std::string depends_on, Finding& finding);

}  // namespace headwise
