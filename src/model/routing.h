// The choice of a mixture of heads: how much every row uses of every head.
//
// Of R routed heads a row keeps the k likeliest by p = softmax(x W'), with gates R p: 1 if all are
// equally likely. The other routed heads are 0 for it; heads that are not routed keep their gates.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/core/view.h"
#include "headwise/kernels/attention.h"
#include "headwise/model/config.h"

namespace headwise {

/// The gates [T, H] that rows of likelihoods p [T, R] make of the gates of `params`, if it has any.
/// Returns how many rows chose each routed head.
std::vector<int64_t> choose_heads(const RoutingConfig& routing, View<const float, 2> p,
                                  const Attention& params, View<float, 2> gates);

/// The row of the gates of `params` that row t of sequence b has.
int64_t gate_row(const Attention& params, int64_t b, int64_t t);

}  // namespace headwise
