// Negative log likelihood of the tokens of a text, in nats.
#pragma once

#include <vector>

#include "headwise/model/model.h"

namespace headwise {

/// Causal models: [T], of the token at each row given those before it; NaN at the first row of a
/// text, which nothing predicts.
std::vector<float> next_token_nll(const Model& model, const TokenBatch& batch,
                                  const ForwardOptions& options = {});

/// Encoder-decoders: [T] of the targets' tokens, each given the source and the tokens before it,
/// the first one given the token that decoders start with.
std::vector<float> target_nll(const Model& model, const TokenBatch& source,
                              const TokenBatch& target, const ForwardOptions& options = {});

/// -log softmax(output(hidden))[token] of each row; never all logits at once.
std::vector<float> token_nll(const Model& model, View<const float, 2> hidden,
                             std::span<const int32_t> tokens);

}  // namespace headwise
