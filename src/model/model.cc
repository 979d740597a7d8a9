// Loading a model, and its forward passes.
#include "headwise/model/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/io/tensor_file.h"
#include "model/model_parts.h"
#include "model/model_source.h"
#include "model/parameter_table.h"
#include "model/rotary_frequencies.h"
#include "model/stack_layout.h"
#include "model/weight_reader.h"

namespace headwise {
namespace {

bool wants_hidden(const ForwardOptions& options) {
  return options.observer == nullptr || options.observer->wants_hidden();
}

/// The position of every row in its text, `begin` tokens of which came before.
std::vector<int64_t> positions_of(std::span<const int64_t> offsets, const DecoderState* state) {
  std::vector<int64_t> positions;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    const int64_t before = state == nullptr ? 0 : state->length(static_cast<int64_t>(b));
    for (int64_t i = 0; i < offsets[b + 1] - offsets[b]; ++i) positions.push_back(before + i);
  }
  return positions;
}

[[noreturn]] void refuse(std::string what, std::string got, std::string expected,
                         std::string hint = "") {
  throw Error({.what = std::move(what),
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = std::move(hint)});
}

}  // namespace

AttentionObserver* ForwardObserver::attention_observer(const AttentionSite&, const Attention&) {
  return nullptr;
}
void ForwardObserver::on_z(const AttentionSite&, const Attention&, const MultiHeadAttention&,
                           View<float, 3>, View<const float, 2>) {}
bool ForwardObserver::wants_heads() const { return true; }

bool ForwardObserver::wants_attn_out() const { return false; }
bool ForwardObserver::wants_hidden() const { return true; }
void ForwardObserver::on_attn_out(const AttentionSite&, View<const float, 2>) {}
void ForwardObserver::on_resid_post(Side, int64_t, View<const float, 2>) {}

void TokenBatch::add(std::span<const int32_t> text, std::span<const int32_t> text_types) {
  if (!text_types.empty() || !types.empty()) {
    types.resize(ids.size());
    types.insert(types.end(), text_types.begin(), text_types.end());
    types.resize(ids.size() + text.size());
  }
  ids.insert(ids.end(), text.begin(), text.end());
  offsets.push_back(static_cast<int64_t>(ids.size()));
}

void TokenBatch::check() const {
  const auto T = std::ssize(ids);
  if (offsets.empty() || offsets.front() != 0 || offsets.back() != T ||
      !std::ranges::is_sorted(offsets)) {
    refuse("the offsets of a batch do not cover its tokens",
           fmt::format("{} offsets for {} tokens", offsets.size(), T),
           "ascending from 0 to the number of tokens");
  }
  if (!types.empty() && std::ssize(types) != T) {
    refuse("a batch has not one type per token", fmt::format("{}", types.size()),
           fmt::format("{}", T));
  }
}

Activations::Activations(int64_t count, int64_t width)
    : buffer(checked_mul(count, width)), rows(buffer.data(), {count, width}) {}

Activations gather(View<const float, 2> rows, std::span<const int64_t> indices) {
  Activations result(static_cast<int64_t>(indices.size()), rows.extent(1));
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= rows.extent(0)) {
      refuse("a row is not there", fmt::format("{}", indices[i]),
             fmt::format("0 to {}", rows.extent(0) - 1));
    }
    std::copy_n(&rows(indices[i], 0), rows.extent(1), &result.rows(i, 0));
  }
  return result;
}

Activations Model::Parts::run(const Stack& stack, const TokenBatch& batch, BlockInput input,
                              DecoderState* state, std::span<BlockKvCache> kv_caches) {
  batch.check();
  const std::vector<int64_t> positions = positions_of(batch.offsets, state);
  const bool dynamic_ntk =
      state == nullptr && !positions.empty() && needs_dynamic_ntk(std::ranges::max(positions) + 1);
  if (dynamic_ntk && batch.sequences() > 1) return run_apart(stack, batch, input);
  check_tokens(config, stack.side(), batch, positions, dynamic_ntk);
  input.positions = positions;
  if (dynamic_ntk) {
    BlockScratch own;
    own.attention.rotary = dynamic_ntk_rotary(batch.rows());
    return stack.forward(batch, input, own, kv_caches);
  }
  Lease lease(*this);
  stack.grow_rotary(lease.scratch().attention, positions);
  return stack.forward(batch, input, lease.scratch(), kv_caches);
}

Activations Model::Parts::run_first(const TokenBatch& batch, const ForwardOptions& options,
                                    bool whole) {
  check_gates(options.gates, sites, batch.sequences());
  return run(first(), batch, {.options = &options, .whole = whole}, nullptr, {});
}

Activations Model::Parts::run_apart(const Stack& stack, const TokenBatch& batch,
                                    const BlockInput& input) {
  Activations rows(input.whole ? batch.rows() : 0, config.width);
  ForwardOptions options = *input.options;
  BlockInput of_text = input;
  of_text.options = &options;
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    const int64_t begin = batch.offsets[b], end = batch.offsets[b + 1];
    if (begin == end) continue;
    if (input.options->gates.extent(0) > 1) options.gates = input.options->gates.rows(b, b + 1);
    TokenBatch text;
    text.add(std::span(batch.ids).subspan(begin, end - begin));
    const Activations part = run(stack, text, of_text, nullptr, {});
    if (input.whole) {
      std::copy_n(part.rows.data(), (end - begin) * config.width, &rows.rows(begin, 0));
    }
  }
  return rows;
}

RotaryTable Model::Parts::dynamic_ntk_rotary(int64_t length) const {
  return RotaryTable(length, dynamic_frequencies(config.rotary, config.max_positions, length));
}

struct DecoderState::Parts {
  std::vector<BlockKvCache> kv_caches;  // one per block
  std::vector<int64_t> lengths;         // of the texts
  std::vector<int64_t> source_offsets;

  int64_t per_source() const {
    const auto sources = static_cast<int64_t>(source_offsets.size()) - 1;
    return sources <= 0 ? 1 : static_cast<int64_t>(lengths.size()) / sources;
  }
};

DecoderState::DecoderState(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
DecoderState::DecoderState(DecoderState&&) noexcept = default;
DecoderState& DecoderState::operator=(DecoderState&&) noexcept = default;
DecoderState::~DecoderState() = default;

int64_t DecoderState::sequences() const { return static_cast<int64_t>(parts_->lengths.size()); }
int64_t DecoderState::length(int64_t text) const { return parts_->lengths[text]; }

void DecoderState::reorder(std::span<const int64_t> from) {
  const bool fits = std::ranges::all_of(
      from, [&](int64_t source) { return source >= 0 && source < sequences(); });
  if (!fits || std::ssize(from) != sequences()) {
    refuse("sequences cannot be put in this order", fmt::format("[{}]", fmt::join(from, ", ")),
           fmt::format("{} numbers from 0 to {}", sequences(), sequences() - 1));
  }
  const int64_t per_source = parts_->per_source();
  for (int64_t b = 0; parts_->source_offsets.size() > 1 && b < sequences(); ++b) {
    if (from[b] / per_source == b / per_source) continue;
    refuse("a sequence cannot change its source", fmt::format("{} for {}", from[b], b),
           fmt::format("one of the same {}", per_source));
  }
  std::vector<int64_t> lengths;
  for (const int64_t source : from) lengths.push_back(parts_->lengths[source]);
  for (BlockKvCache& kv_cache : parts_->kv_caches) kv_cache.self.reorder(from);
  parts_->lengths = std::move(lengths);
}

Model::Model(std::unique_ptr<Parts> parts, std::unique_ptr<ModelSource> source)
    : parts_(std::move(parts)), source_(std::move(source)) {}
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;
Model::~Model() = default;

Model read_model(const std::filesystem::path& folder, const LoadOptions& options) {
  ModelConfig config = read_config(folder, options.config);
  WeightReader reader(TensorFiles::open(folder), {.allow_nonfinite = options.allow_nonfinite,
                                                  .allow_unexpected = options.allow_unexpected});
  const std::string prefix = find_prefix(config, reader);
  if (!TaskHead::was_saved(config, prefix, reader)) config.task = Task::hidden;
  reader.expect(table_of(config, prefix, reader));
  auto parts = std::make_unique<Model::Parts>(std::move(config), reader, prefix, false);
  reader.finish();
  return Model(std::move(parts), std::make_unique<ModelSource>(folder, options));
}

const Transformer& layers_of(const Model& model) { return *model.parts_; }

const ModelConfig& Model::config() const { return parts_->config; }
std::span<const AttentionSite> Model::attentions() const { return parts_->sites; }
int64_t Model::heads() const {
  int64_t heads = 0;
  for (const AttentionSite& site : parts_->sites) heads += std::ssize(site.heads);
  return heads;
}
std::string Model::head_name(int64_t head) const {
  const AttentionSite* const site = site_of_head(parts_->sites, head);
  if (site == nullptr) {
    refuse("there is no such head", fmt::format("{}", head), fmt::format("0 to {}", heads() - 1));
  }
  return site->head_name(head - site->first);
}
const MultiHeadAttention& Model::layer(int64_t site) const {
  return parts_->layer(parts_->sites[site]).attention();
}

Activations Model::forward(const TokenBatch& batch, const ForwardOptions& options) const {
  return parts_->run_first(batch, options, wants_hidden(options));
}

Activations Model::forward(const TokenBatch& source, const TokenBatch& target,
                           const ForwardOptions& options) const {
  if (!config().encoder_decoder()) {
    refuse("the model has no encoder and decoder", config().model_type, "marian or t5",
           "give it one text");
  }
  if (source.sequences() != target.sequences()) {
    refuse("sources and targets are not as many", fmt::format("{}", target.sequences()),
           fmt::format("{}", source.sequences()));
  }
  const Activations encoded = parts_->run_first(source, options, true);
  return parts_->run(parts_->decoder, target,
                     {.cross_offsets = target.offsets,
                      .source_offsets = source.offsets,
                      .source = encoded.rows,
                      .options = &options,
                      .whole = wants_hidden(options)},
                     nullptr, {});
}

Activations Model::output(View<const float, 2> hidden) const {
  return parts_->head.forward(hidden);
}
void Model::output_losses(View<const float, 2> hidden, std::span<const int32_t> targets,
                          std::span<double> losses) const {
  parts_->head.losses(hidden, targets, losses);
}
int64_t Model::output_width() const { return parts_->head.width(); }
std::vector<int64_t> Model::output_rows(std::span<const int64_t> offsets) const {
  return parts_->head.rows(offsets);
}

Activations Model::word_embeddings(Side side, std::span<const int32_t> ids) const {
  const Stack& stack = parts_->stack(side);
  if (!stack.word().exists()) {
    refuse("the model has no such side", side == Side::encoder ? "encoder" : "decoder",
           side == Side::encoder ? "decoder" : "encoder");
  }
  Activations words(std::ssize(ids), config().embedding_width);
  stack.word().gather(ids, 1, false, words.rows);
  return words;
}

Activations Model::logit_directions(View<const float, 2> rows,
                                    std::span<const int32_t> tokens) const {
  if (config().task != Task::causal_lm) {
    refuse("the model predicts no next token", config().model_type, "a causal language model");
  }
  Activations directions = parts_->head.beside_mean(tokens);
  parts_->decoder.final_norm().backward_frozen(rows, directions.rows);
  return directions;
}

DecoderState Model::start(int64_t texts, int64_t capacity, const TokenBatch& source,
                          const ForwardOptions& options) const {
  if (config().decoder.layers() == 0) {
    refuse("the model has no decoder", config().model_type, "a model that generates text");
  }
  if (texts < 0 || capacity < 0) {
    refuse("decoding cannot start with these sizes",
           fmt::format("{} sequences of {} tokens", texts, capacity), "neither below 0");
  }
  auto state = std::make_unique<DecoderState::Parts>();
  state->lengths.resize(texts);
  for (const Block& block : parts_->decoder.blocks()) {
    const MultiHeadAttentionShape& s = block.self().attention().shape();
    state->kv_caches.push_back({.self = KvCache({.sequences = texts,
                                                 .capacity = capacity,
                                                 .kv_heads = s.K,
                                                 .head_dim = s.D,
                                                 .value_dim = s.Dv,
                                                 .key_heads = s.key_heads})});
  }
  if (config().encoder_decoder()) {
    if (source.sequences() == 0 || texts % source.sequences() != 0) {
      refuse("the sequences do not divide among the sources", fmt::format("{}", texts),
             fmt::format("a multiple of {}", source.sequences()));
    }
    state->source_offsets = source.offsets;
    const Activations encoded = parts_->run_first(source, options, true);
    for (size_t layer = 0; layer < state->kv_caches.size(); ++layer) {
      parts_->decoder.blocks()[layer].cross()->attention().project_source(
          encoded.rows, state->kv_caches[layer].cross);
    }
  }
  return DecoderState(std::move(state));
}

Activations Model::step(const TokenBatch& tokens, DecoderState& state,
                        const ForwardOptions& options) const {
  DecoderState::Parts& parts = *state.parts_;
  if (parts.kv_caches.empty() || parts.kv_caches.size() != parts_->decoder.blocks().size()) {
    refuse("the state is of another model", fmt::format("{} layers", parts.kv_caches.size()),
           fmt::format("{}", parts_->decoder.blocks().size()));
  }
  tokens.check();
  if (tokens.sequences() != state.sequences()) {
    refuse("a step is not for every sequence", fmt::format("{}", tokens.sequences()),
           fmt::format("{}", state.sequences()));
  }
  check_gates(options.gates, attentions(), tokens.sequences());
  std::vector<int64_t> cross_offsets;
  const int64_t per_source = parts.per_source();
  for (size_t source = 0; source < parts.source_offsets.size(); ++source) {
    cross_offsets.push_back(tokens.offsets[source * per_source]);
  }
  Activations rows = parts_->run(
      parts_->decoder, tokens,
      {.cross_offsets = cross_offsets, .source_offsets = parts.source_offsets, .options = &options},
      &state, parts.kv_caches);
  for (int64_t b = 0; b < tokens.sequences(); ++b) {
    parts.lengths[b] += tokens.offsets[b + 1] - tokens.offsets[b];
  }
  return rows;
}

}  // namespace headwise
