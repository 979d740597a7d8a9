// Beam search: the best of several hypotheses that grow side by side, as transformers defines it.
#pragma once

#include <vector>

#include "headwise/model/generate.h"

namespace headwise {

/// `prompts` have at least one token each; `sources` only of encoder-decoders.
std::vector<Generated> beam_search(const Model& model, const TokenBatch& prompts,
                                   const TokenBatch& sources, const GenerateOptions& options);

int64_t longest(const TokenBatch& batch);                 // tokens of its longest text
std::vector<int64_t> last_rows(const TokenBatch& batch);  // of texts that have any

}  // namespace headwise
