// Which heads read what which heads wrote, by their weights.
#pragma once

#include "headwise/model/model.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// The mean of ‖W_b W_O,a W_V,a‖ / (‖W_b‖ ‖W_O,a W_V,a‖) for matrices of independent normal
/// numbers: W_b [reads, width], W_O [width, values], W_V [values, source].
struct CompositionShape {
  int64_t width = 0, source = 0, values = 0, reads = 0;
  auto operator<=>(const CompositionShape&) const = default;
};
double random_composition(const CompositionShape& shape, uint64_t seed);

/// Adds composition/q, /k and /v: one matrix "all" of all heads of the model each, row a and column
/// b, NaN where b does not read what a writes.
void observe_composition(const Model& model, uint64_t seed, Evidence& evidence);

}  // namespace headwise
