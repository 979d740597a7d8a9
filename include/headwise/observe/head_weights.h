// What can be said about heads from their weights alone.
#pragma once

#include "headwise/model/model.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// Adds qk_rank, ov_rank and copying of every head of `evidence`, and of pairs subspace_overlap and
/// principal_angle (q, k, v, o; of one attention) and composition (q, k, v; of heads of an earlier
/// layer and a later one). The seed is that of the random matrices beside which composition is
/// seen.
void observe_weights(const Model& model, uint64_t seed, Evidence& evidence);

}  // namespace headwise
