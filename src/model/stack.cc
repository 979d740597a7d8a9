// A stack without a tape, and its weights.
#include "model/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "headwise/core/error.h"
#include "model/families/family.h"
#include "model/stack_layout.h"

namespace headwise {
Stack::Stack(WeightSource& source, const Place& place)
    : config_(&place.config),
      side_(place.side),
      drops_finally_(family_of(place.config).dropouts.final) {
  const ModelConfig& config = place.config;
  const StackNaming naming(config, side_, place.prefix);
  const WeightNames& names = naming.model();
  const int64_t E = config.embedding_width;
  read_word(source, place, naming);
  read_positions(source, naming);
  if (config.token_types > 0) {
    const LayerName name{"embeddings.token_type", naming.full(names.token_type) + ".weight"};
    token_type_ = Embedding(source, name, config.token_types, E);
  }
  if (config.embedding_norm) {
    embedding_norm_ =
        Norm(source, {"embeddings.norm", naming.full(names.embedding_norm)}, config, E);
  }
  embedding_stream_ = place.streams++;
  if (E != config.width) {
    embedding_projection_ =
        Linear(source, {"embeddings.projection", naming.full(names.embedding_projection)},
               {.outputs = config.width, .inputs = E, .transposed = names.transposed});
  }
  const std::string of_stack = !config.encoder_decoder() ? ""
                               : side_ == Side::encoder  ? "enc."
                                                         : "dec.";
  if (config.relative.buckets > 0) {
    relative_ = RelativeBiasTable(
        source, {of_stack + "relative_bias", naming.full(naming.stack().relative_bias)}, config,
        side_);
  }
  const int64_t layers = stack_config(config, side_).layers();
  blocks_.reserve(layers);
  for (int64_t layer = 0; layer < layers; ++layer) {
    blocks_.emplace_back(source, Block::Place{.config = config,
                                              .side = side_,
                                              .layer = layer,
                                              .sites = place.sites,
                                              .naming = naming,
                                              .streams = place.streams});
  }
  if (!naming.stack().final_norm.empty()) {
    final_norm_ = Norm(source, {of_stack + "final_norm", naming.full(naming.stack().final_norm)},
                       config, config.width);
  }
  final_stream_ = place.streams++;
}

void Stack::read_word(WeightSource& source, const Place& place, const StackNaming& naming) {
  const ModelConfig& config = place.config;
  const int64_t V = stack_vocabulary(config, side_), pad = padding_row(config);
  const WordTensor word =
      word_tensor(config, naming, [&](const std::string& name) { return source.has(name); });
  const bool known = place.shared_word != nullptr && place.shared_word->exists();
  if (word.shared() && known && place.shared_word->tensor() == word.name) {
    word_ = *place.shared_word;
    if (word_.rows() != V) {
      throw Error({.what = "encoder and decoder cannot share an embedding",
                   .where = "decoder_vocab_size",
                   .got = fmt::format("{}", V),
                   .expected = fmt::format("{}", word_.rows())});
    }
  } else {
    std::string name = "embeddings.word";
    if (config.encoder_decoder() && !word.shared()) {
      name = side_ == Side::encoder ? "embeddings.enc.word" : "embeddings.dec.word";
    }
    word_ = Embedding(source, {name, word.name}, V, config.embedding_width, pad);
  }
  if (word.shared()) source.copy(word.copy, word.name);
}

void Stack::read_positions(WeightSource& source, const StackNaming& naming) {
  const ModelConfig& config = *config_;
  const std::string name = naming.full(naming.stack().position) + ".weight";
  if (config.positions == PositionKind::learned) {
    position_ = Embedding(source, {"embeddings.position", name},
                          config.max_positions + config.position_offset, config.embedding_width,
                          position_padding_row(config));
  } else if (config.positions == PositionKind::sinusoidal) {
    position_ = sinusoidal_positions(config.max_positions, config.width);
    if (source.has(name)) {
      source.tensor(name, {config.max_positions, config.width},
                    {{.values = position_.weights().matrix()}});
    }
  }
}

void Stack::sum_embeddings(const TokenBatch& batch, std::span<const int32_t> position_rows,
                           std::span<const int32_t> types, View<float, 2> out) const {
  word_.gather(batch.ids, config_->embedding_scale, false, out);
  if (position_.exists()) position_.gather(position_rows, 1, true, out);
  if (token_type_.exists()) token_type_.gather(types, 1, true, out);
}

std::vector<int32_t> Stack::types_of(const TokenBatch& batch) const {
  std::vector<int32_t> types = batch.types;
  types.resize(batch.rows());
  return types;
}

Activations Stack::embed(const TokenBatch& batch, std::span<const int64_t> positions) const {
  const int64_t T = batch.rows();
  Activations words(T, config_->embedding_width);
  sum_embeddings(batch, position_rows(*config_, batch, positions), types_of(batch), words.rows);
  if (embedding_norm_.exists()) embedding_norm_.forward(words.rows, words.rows);
  if (!embedding_projection_.exists()) return words;
  Activations projected(T, config_->width);
  embedding_projection_.forward(words.rows, projected.rows);
  return projected;
}

Activations Stack::forward(const TokenBatch& batch, BlockInput input, BlockScratch& scratch,
                           std::span<BlockKvCache> kv_caches) const {
  ForwardObserver* const observer = input.options->observer;
  Activations x = embed(batch, input.positions);
  input.offsets = batch.offsets;
  input.relative = relative();
  if (observer != nullptr) observer->on_resid_post(side_, -1, x.rows);
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    BlockKvCache* const kv_cache = kv_caches.empty() ? nullptr : &kv_caches[layer];
    if (!input.whole && layer + 1 == blocks_.size()) {
      blocks_[layer].attention_sublayers(x.rows, input, scratch, kv_cache);
      return {};
    }
    blocks_[layer].forward(x.rows, input, scratch, kv_cache);
    if (observer != nullptr) observer->on_resid_post(side_, static_cast<int64_t>(layer), x.rows);
  }
  finish(x.rows);
  return x;
}

void Stack::finish(View<float, 2> x) const {
  if (final_norm_.exists()) final_norm_.forward(x, x);
}

void Stack::grow_rotary(AttentionScratch& scratch, std::span<const int64_t> positions) const {
  if (config_->positions != PositionKind::rotary || positions.empty()) return;
  const int64_t needed = std::ranges::max(positions) + 1;
  if (scratch.rotary.positions() >= needed) return;
  const auto room = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(needed)));
  scratch.rotary =
      RotaryTable(room, config_->rotary.inverse_frequencies, config_->rotary.attention_factor);
}

}  // namespace headwise
