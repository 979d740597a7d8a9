// The projections of an attention, head by head: equal first weights, and norms of gradients.
#pragma once

#include <span>

#include "headwise/model/multi_head_attention.h"

namespace headwise {

/// Gives all heads the weights of the first.
void make_heads_equal(const MultiHeadAttentionWeights& weights);

/// The norm of the gradient of each head [H]: query, key, value (of its group) and output.
void head_gradient_norms(const MultiHeadAttentionWeights& gradients, std::span<double> norms);

}  // namespace headwise
