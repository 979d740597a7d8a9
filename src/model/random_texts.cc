// Draws ids.
#include "model/random_texts.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "headwise/core/random.h"

namespace headwise {
namespace {

TokenBatch drawn(int64_t texts, int64_t tokens, int64_t vocabulary, std::optional<int32_t> pad,
                 Random random) {
  TokenBatch batch;
  for (int64_t b = 0; b < texts; ++b) {
    std::vector<int32_t> ids(tokens);
    for (int32_t& id : ids) {
      do {
        id = static_cast<int32_t>(random.below(static_cast<uint32_t>(vocabulary)));
      } while (id == pad && vocabulary > 1);
    }
    batch.add(ids);
  }
  return batch;
}

}  // namespace

RandomTexts random_texts(const ModelConfig& config, int64_t texts, int64_t tokens, uint64_t seed) {
  if (config.max_positions > 0) tokens = std::min(tokens, config.max_positions);
  RandomTexts batch{.source = drawn(texts, tokens, config.vocabulary, config.pad, Random(seed, 0))};
  if (config.encoder_decoder()) {
    batch.target = drawn(texts, tokens, config.decoder_vocabulary, config.pad, Random(seed, 1));
  }
  return batch;
}

}  // namespace headwise
