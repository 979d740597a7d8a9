// Measures of heads that need only their weights.
#pragma once

#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "headwise/model/model.h"
#include "headwise/observe/evidence.h"

namespace headwise {

/// Their names, of heads and of pairs.
std::span<const std::string_view> weight_measures();

/// Adds qk_rank, ov_rank and copying of every head of `evidence`, and of pairs subspace_overlap and
/// principal_angle (q, k, v, o; of one attention) and composition (q, k, v; of heads of an earlier
/// layer and a later one). `seed` draws the random matrices that composition is compared with.
void observe_weights(const Model& model, uint64_t seed, Evidence& evidence);

/// What the subspaces of one projection of two heads have in common; NaN where a head has no such
/// projection.
struct SubspaceRelation {
  double overlap = std::numeric_limits<double>::quiet_NaN();  // mean squared cosine
  double angle = std::numeric_limits<double>::quiet_NaN();    // the smallest principal angle
};

/// Of q, k, v and o, for heads of any two layers of the same width.
std::map<std::string, SubspaceRelation> compare_subspaces(const Model& model, HeadIndex a,
                                                          HeadIndex b);

}  // namespace headwise
