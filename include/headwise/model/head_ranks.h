// The effective rank of the query-key product of each head.
#pragma once

#include <vector>

#include "headwise/model/model.h"

namespace headwise {

/// Per head of the model (see AttentionSite::first), exp(entropy of the singular values of
/// W_Q W_K', divided by their sum): 1 if one direction does all, the width of the head if all do
/// the same. Biases and positions are left out. 0 for a head whose weights are 0, NaN for a fixed
/// one, which has neither.
std::vector<double> qk_ranks(const Model& model);

}  // namespace headwise
