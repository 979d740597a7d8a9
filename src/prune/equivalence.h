// Checks that a pruned model is what was meant: it has the hidden states of a reference.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "headwise/model/model.h"
#include "headwise/prune/prune.h"

namespace headwise {

/// Of an encoder-decoder, those of the targets.
Activations last_hidden(const Model& model, const TokenBatch& source, const TokenBatch& target,
                        const ForwardOptions& options = {});

/// How far hidden states of two forms of a model may be apart, relative to the largest. They differ
/// by the order in which the products of output projections are summed, C or fewer of them, once in
/// each attention: rounding is a walk of that many steps of half the last bit of a float, and
/// differences of several layers add up. The rest is what layers can make of a difference.
double rounding_of_forms(const Model& model);

/// Compares the last hidden states of `written` with those of `reference` with these gates [heads];
/// empty: all 1.
EquivalenceCheck compare_models(const Model& written, const Model& reference,
                                std::span<const float> gates, const TokenBatch& source,
                                const TokenBatch& target, const std::function<void()>& check = {});

/// Throws Error if the difference is more than rounding.
void require_same(const EquivalenceCheck& proof, const Model& model,
                  const std::filesystem::path& out);

}  // namespace headwise
