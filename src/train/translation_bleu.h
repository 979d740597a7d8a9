// BLEU of what a model translates by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "headwise/model/generate.h"
#include "headwise/text/tokenizer.h"

namespace headwise {

/// Of translations of the sources, one reference each. `check` is called with the number of those
/// that are done, and may throw to stop.
double translation_bleu(const Model& model, const TokenBatch& sources,
                        const GenerateOptions& options, const Tokenizer& tokenizer,
                        std::span<const std::string> references,
                        const std::function<void(int64_t done)>& check);

/// As the folder says, but by beam search: with so many beams, and at most so many new tokens, or
/// as many as the model has positions for.
GenerateOptions translation_options(const std::filesystem::path& folder, const ModelConfig& config,
                                    int64_t beams = 5, int64_t max_new_tokens = 512);

}  // namespace headwise
