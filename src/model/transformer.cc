// Builds the layers of a model in the order in which training declares them.
#include "model/transformer.h"

#include <utility>

namespace headwise {

Transformer::Transformer(ModelConfig of, WeightSource& source, const std::string& prefix,
                         bool fresh_output)
    : config(std::move(of)), sites(attention_sites(config)) {
  uint64_t streams = 0;
  const auto make = [&](Side side, const Embedding* shared_word) {
    return Stack(source, {.config = config,
                          .side = side,
                          .prefix = prefix,
                          .sites = sites,
                          .shared_word = shared_word,
                          .streams = streams});
  };
  if (config.encoder.layers() > 0) encoder = make(Side::encoder, nullptr);
  if (config.decoder.layers() > 0) decoder = make(Side::decoder, &encoder.word());
  const Stack& last = config.decoder.layers() > 0 ? decoder : encoder;
  head = TaskHead(source, {.config = config,
                           .prefix = prefix,
                           .word = last.word(),
                           .streams = streams,
                           .fresh = fresh_output});
}

const AttentionLayer& Transformer::layer(const AttentionSite& site) const {
  const Block& block = stack(site.side).blocks()[site.layer];
  return site.kind == AttentionKind::cross ? *block.cross() : block.self();
}

}  // namespace headwise
