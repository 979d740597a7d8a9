// Random sequences that are repeated: what induction and duplicate-token heads show themselves on.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/text/tokenizer.h"

namespace headwise {

inline constexpr int64_t kRepeatedLength = 50;
inline constexpr int64_t kRepeatedCount = 16;

/// What stands around a text: what the tokenizer's template puts; where that puts nothing in front,
/// a decoder's BOS, if it has one.
struct Wrapping {
  std::vector<int32_t> before{}, after{};
};
Wrapping usual_wrapping(const ModelConfig& config, const Tokenizer* tokenizer);

struct RepeatedSequences {
  std::vector<std::vector<int32_t>> ids{};          // before, r_1 … r_k, r_1 … r_k, after
  std::vector<std::vector<int32_t>> decoder_ids{};  // of encoder-decoders: start, r_1 … r_k, twice
  int64_t length = 0;  // k; shorter than asked for if the model has too few positions, and 0, with
                       // no sequences, if it has not even enough for 2
};

/// Tokens are drawn by the seed from those that are neither special nor empty; no token comes twice
/// among r_1 … r_k if there are enough. Without a tokenizer every id counts that the config does
/// not name.
RepeatedSequences repeated_sequences(const ModelConfig& config, const Tokenizer* tokenizer,
                                     uint64_t seed, int64_t length = kRepeatedLength,
                                     int64_t count = kRepeatedCount);

}  // namespace headwise
