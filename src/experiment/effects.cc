// The rule that most experiments share.
#include "experiment/effects.h"

#include <algorithm>
#include <utility>

namespace headwise {

std::vector<Effect> effects_of(std::span<const ClaimTest> family, double smallest) {
  return effects_of(family, std::vector<double>(family.size(), smallest));
}

std::vector<Effect> effects_of(std::span<const ClaimTest> family,
                               std::span<const double> smallest) {
  constexpr double kDecides = 0.05;
  const std::vector<double> corrected = holm(family);
  std::vector<Effect> effects;
  for (size_t t = 0; t < family.size(); ++t) {
    const ClaimTest& test = family[t];
    const bool there = corrected[t] < kDecides && test.figure >= smallest[t];
    const bool absent = test.interval && test.interval->high < smallest[t];
    effects.push_back(there ? Effect::there : absent ? Effect::absent : Effect::open);
  }
  return effects;
}

ClaimTest test_above(std::string name, const Estimate& estimate, double threshold) {
  return {.name = std::move(name),
          .figure = estimate.value,
          .interval = estimate.interval(),
          .n = estimate.n,
          .p = estimate.p_above(threshold)};
}

void decide(std::span<const Effect> effects, std::string depends_on, Finding& finding) {
  decide_over_models(std::ranges::count(effects, Effect::there),
                     std::ranges::count(effects, Effect::absent), std::ssize(effects), finding);
  if (finding.outcome == ClaimOutcome::depends) finding.depends_on = std::move(depends_on);
}

}  // namespace headwise
