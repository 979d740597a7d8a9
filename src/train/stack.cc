// How a stack is declared, and how rows and their gradients go through it.
#include "train/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/kernels/dropout.h"
#include "model/gather_rows.h"
#include "model/layers.h"

namespace headwise {
namespace {

/// The row of padding in embeddings, which look-ups do not train; -1: the architecture has none.
int64_t padding_row(const ModelConfig& config) {
  return family_of(config).padding_row && config.pad ? *config.pad : -1;
}

}  // namespace

TrainedStack::TrainedStack(ParameterList& declare, const Place& place)
    : config_(&place.config),
      side_(place.side),
      drops_finally_(family_of(place.config).dropouts.final) {
  const ModelConfig& config = place.config;
  const StackNaming naming(config, side_, place.prefix);
  const WeightNames& names = naming.model();
  const InitStd& d = place.init_std;
  const int64_t E = config.embedding_width;
  declare_word(declare, place, naming);
  declare_positions(declare, place, naming);
  if (config.token_types > 0) {
    token_type_ =
        Embedding(declare, {"embeddings.token_type", naming.full(names.token_type) + ".weight"},
                  config.token_types, E, Init::normal(d.position), -1);
  }
  if (config.embedding_norm) {
    embedding_norm_ =
        Norm(declare, {"embeddings.norm", naming.full(names.embedding_norm)}, config, E);
  }
  embedding_stream_ = place.streams++;
  if (E != config.width) {
    embedding_projection_ =
        Linear(declare, {"embeddings.projection", naming.full(names.embedding_projection)},
               {.outputs = config.width, .inputs = E, .transposed = names.transposed},
               Init::normal(d.output));
  }
  const std::string of_stack = !config.encoder_decoder() ? ""
                               : side_ == Side::encoder  ? "enc."
                                                         : "dec.";
  if (config.relative.buckets > 0) {
    relative_ = TrainedRelativeBias(
        declare, {of_stack + "relative_bias", naming.full(naming.stack().relative_bias)}, config,
        side_, Init::normal(d.relative));
  }
  const int64_t layers = stack_config(config, side_).layers();
  blocks_.reserve(layers);
  for (int64_t layer = 0; layer < layers; ++layer) {
    blocks_.emplace_back(declare,
                         TrainedBlock::Place{.config = config,
                                             .side = side_,
                                             .layer = layer,
                                             .sites = place.sites,
                                             .naming = naming,
                                             .init_std = d,
                                             .relative = relative_.exists() ? &relative_ : nullptr,
                                             .streams = place.streams});
  }
  tapes_.resize(layers);
  if (!naming.stack().final_norm.empty()) {
    final_norm_ = Norm(declare, {of_stack + "final_norm", naming.full(naming.stack().final_norm)},
                       config, config.width);
  }
  final_stream_ = place.streams++;
}

void TrainedStack::declare_word(ParameterList& declare, const Place& place,
                                const StackNaming& naming) {
  const ModelConfig& config = place.config;
  const int64_t V = stack_vocabulary(config, side_), pad = padding_row(config);
  const std::string own = naming.full(naming.stack().word);
  const std::string shared = naming.full(naming.model().shared_word);
  const bool shares = !naming.model().shared_word.empty() && config.shared_embeddings &&
                      (declare.has(shared + ".weight") || !declare.has(own + ".weight"));
  if (shares) declare.copy(own + ".weight", shared + ".weight");
  if (shares && place.shared_word != nullptr) {
    word_ = place.shared_word;
    if (word_->rows() == V) return;
    throw Error({.what = "encoder and decoder cannot share an embedding",
                 .where = "decoder_vocab_size",
                 .got = fmt::format("{}", V),
                 .expected = fmt::format("{}", word_->rows())});
  }
  std::string name = "embeddings.word";
  if (config.encoder_decoder() && !shares) {
    name = side_ == Side::encoder ? "embeddings.enc.word" : "embeddings.dec.word";
  }
  own_word_ = Embedding(declare, {name, (shares ? shared : own) + ".weight"}, V,
                        config.embedding_width, Init::normal(place.init_std.word, pad), pad);
  word_ = &own_word_;
}

void TrainedStack::declare_positions(ParameterList& declare, const Place& place,
                                     const StackNaming& naming) {
  const ModelConfig& config = place.config;
  const std::string name = naming.full(naming.stack().position);
  if (config.positions == PositionKind::learned) {
    const int64_t pad = config.position_offset > 0 ? padding_row(config) : -1;
    position_ = Embedding(declare, {"embeddings.position", name + ".weight"},
                          config.max_positions + config.position_offset, config.embedding_width,
                          Init::normal(place.init_std.position, pad), pad);
  } else if (config.positions == PositionKind::sinusoidal) {
    position_ = sinusoidal_positions(config.max_positions, config.width);
    if (declare.has(name + ".weight")) {
      declare.tensor(name + ".weight", {config.max_positions, config.width},
                     {{.values = position_.weights().matrix()}}, Init::zeros());
    }
  }
}

View<float, 2> TrainedStack::forward(const TokenBatch& batch, const PassOptions& options,
                                     const Source& source, WantedRows wanted,
                                     TrainedBlock::Scratch& scratch) {
  positions_.clear();
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    for (int64_t i = 0; i < batch.offsets[b + 1] - batch.offsets[b]; ++i) positions_.push_back(i);
  }
  check_tokens(*config_, side_, batch, positions_, false);
  grow_rotary();
  batch_ = &batch;
  pass_ = {.options = &options,
           .offsets = batch.offsets,
           .positions = positions_,
           .rotary = config_->positions == PositionKind::rotary ? &rotary_ : nullptr,
           .source_offsets = source.offsets,
           .source = source.rows,
           .dsource = source.gradient};
  end_ = pass_;
  end_.wanted = wanted;
  ForwardObserver* const observer = options.observer;
  const bool all_seen = observer != nullptr && observer->wants_hidden();
  narrow_ = wanted && !all_seen && blocks_.back().narrows();
  View<float, 2> x = embed();
  if (observer != nullptr) observer->on_resid_post(side_, -1, x);
  const int64_t layers = std::ssize(blocks_);
  for (int64_t layer = 0; layer < layers; ++layer) {
    x = blocks_[layer].forward(x, pass_of(layer), tapes_[layer], scratch);
    const bool last =
        layer + 1 == layers && (side_ == Side::decoder || !config_->encoder_decoder());
    if (observer != nullptr && (all_seen || !last)) observer->on_resid_post(side_, layer, x);
  }
  if (wanted && !narrow_) {
    gather_rows(x, *wanted, picked_.shaped(std::ssize(*wanted), x.extent(1)));
    x = picked_.view();
  }
  last_ = x;
  if (final_norm_.exists()) {
    final_norm_.forward(x, final_.like(x));
    x = final_.view();
  }
  if (drops_finally_) dropout(x, end_.dropout(final_stream_), x);
  return x;
}

double TrainedStack::balance_loss() const {
  double sum = 0;
  for (size_t layer = 0; layer < blocks_.size(); ++layer) {
    sum += blocks_[layer].balance_loss(tapes_[layer]);
  }
  return sum;
}

int64_t TrainedStack::depth_of_backward(bool all_blocks) const {
  const int64_t layers = std::ssize(blocks_);
  if (word_->requires_grad() || position_.requires_grad() || token_type_.requires_grad() ||
      embedding_norm_.requires_grad() || embedding_projection_.requires_grad()) {
    return layers + 1;
  }
  if (all_blocks || relative_.requires_grad()) return layers;
  const auto lowest = std::ranges::find_if(blocks_, &TrainedBlock::requires_grad);
  return blocks_.end() - lowest;
}

void TrainedStack::backward(View<float, 2> d, double balance_scale,
                            TrainedBlock::Scratch& scratch) {
  pass_.balance_scale = end_.balance_scale = balance_scale;
  // All blocks have gates, and all of a decoder read the encoder's rows.
  const bool all_blocks = pass_.wants_gates() || pass_.dsource.data() != nullptr;
  const int64_t depth = depth_of_backward(all_blocks), layers = std::ssize(blocks_);
  if (drops_finally_) dropout(d, end_.dropout(final_stream_), d);
  if (final_norm_.exists()) final_norm_.backward(last_, d, {.dx = d});
  if (end_.wanted && !narrow_) {
    const View<float, 2> all = dspread_.shaped(batch_->rows(), d.extent(1));
    scatter_rows(d, *end_.wanted, all);
    d = all;
  }
  for (int64_t layer = layers - 1; layer >= std::max<int64_t>(0, layers - depth); --layer) {
    d = blocks_[layer].backward(d, pass_of(layer), tapes_[layer], scratch);
  }
  if (depth > layers) backward_embeddings(d);
}

const StackPass& TrainedStack::pass_of(int64_t layer) const {
  return narrow_ && layer + 1 == std::ssize(blocks_) ? end_ : pass_;
}

View<float, 2> TrainedStack::embed() {
  const View<float, 2> words = summed_.shaped(batch_->rows(), config_->embedding_width);
  word_->gather(batch_->ids, config_->embedding_scale, false, words);
  if (position_.exists()) {
    position_rows_ = position_rows(*config_, *batch_, positions_);
    position_.gather(position_rows_, 1, true, words);
  }
  if (token_type_.exists()) {
    types_ = batch_->types;
    types_.resize(batch_->rows());
    token_type_.gather(types_, 1, true, words);
  }
  View<float, 2> x = words;
  if (embedding_norm_.exists()) {
    x = embedded_.like(words);
    embedding_norm_.forward(words, x);
  }
  dropout(x, pass_.dropout(embedding_stream_), x);
  if (!embedding_projection_.exists()) return x;
  embedding_projection_.forward(x, projected_.shaped(x.extent(0), config_->width));
  return projected_.view();
}

void TrainedStack::backward_embeddings(View<float, 2> d) {
  if (embedding_projection_.exists()) {
    const View<float, 2> x = embedding_norm_.exists() ? embedded_.view() : summed_.view();
    const View<float, 2> dx = dembedded_.like(x);
    embedding_projection_.backward(x, d, {.dx = dx});
    d = dx;
  }
  dropout(d, pass_.dropout(embedding_stream_), d);
  if (embedding_norm_.exists()) embedding_norm_.backward(summed_.view(), d, {.dx = d});
  word_->backward(d, batch_->ids, config_->embedding_scale);
  if (position_.exists()) position_.backward(d, position_rows_, 1);
  if (token_type_.exists()) token_type_.backward(d, types_, 1);
}

void TrainedStack::grow_rotary() {
  if (config_->positions != PositionKind::rotary || positions_.empty()) return;
  const int64_t needed = std::ranges::max(positions_) + 1;
  if (rotary_.positions() >= needed) return;
  rotary_ = RotaryTable(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(needed))),
                        config_->rotary.inverse_frequencies, config_->rotary.attention_factor);
}

}  // namespace headwise
