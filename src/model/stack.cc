// How a stack is read from a checkpoint, and how rows go through it.
#include "model/stack.h"

#include <fmt/format.h>

#include "model/stack_layout.h"

namespace headwise {
namespace {

/// All of a buffer; none if it is empty.
View<const float, 1> vector_of(const Buffer& buffer) {
  return buffer.size() == 0 ? View<const float, 1>() : buffer.view({buffer.size()});
}

/// Reads the layers of one stack.
class StackReader {
 public:
  StackReader(const ModelConfig& config, Side side, const std::string& prefix, WeightReader& reader)
      : config_(config),
        side_(side),
        stack_(stack_config(config, side)),
        naming_(config, side, prefix),
        reader_(reader) {}

  const StackNaming& naming() const { return naming_; }

  Linear linear(const std::string& name, int64_t outputs, int64_t inputs, bool bias) const {
    return {reader_,
            {.tensor = name},
            {.outputs = outputs,
             .inputs = inputs,
             .bias = bias,
             .transposed = naming_.model().transposed}};
  }

  Norm norm(const std::string& name, int64_t width) const {
    return {reader_, {.tensor = name}, config_, width};
  }

  AttentionLayer attention(int64_t layer, const AttentionNames& names,
                           const AttentionConfig& attention, const AttentionSite& site,
                           bool cross) const {
    MultiHeadAttentionWeights weights(layer_config(config_, attention, cross));
    read_projections(layer, names, weights);
    AttentionLayer result{.config = attention,
                          .site = &site,
                          .attention = MultiHeadAttention(std::move(weights)),
                          .norm = norm(naming_.in_layer(layer, names.norm), config_.width)};
    if (config_.qk_norm && !cross) {
      result.query_norm = norm(naming_.in_layer(layer, names.query_norm), attention.head_dim);
      result.key_norm = norm(naming_.in_layer(layer, names.key_norm), attention.head_dim);
    }
    if (!cross) result.relative_table = relative_table(attention);
    if (attention.routing) {
      const int64_t R = std::ssize(attention.routing->heads);
      const Buffer router = reader_.floats(reader_.take(
          naming_.in_layer(layer, router_name(cross)) + ".weight", {R, config_.width}));
      result.routed.emplace(result.attention, *attention.routing,
                            View<const float, 2>(router.data(), {R, config_.width}));
    }
    return result;
  }

  FeedForward feed_forward(int64_t layer) const {
    const int64_t C = config_.width, F = stack_.intermediate;
    const bool bias = config_.feed_forward_bias;
    const auto up = config_.glu ? naming_.stack().glu_up : naming_.stack().up;
    return {
        linear(naming_.in_layer(layer, up), F, C, bias),
        config_.glu ? linear(naming_.in_layer(layer, naming_.stack().gate), F, C, bias) : Linear(),
        linear(naming_.in_layer(layer, naming_.stack().down), C, F, bias), config_.activation};
  }

  Embedding word() const {
    const TensorInfo& tensor = take_word(config_, side_, naming_, reader_);
    return {reader_.table(tensor), tensor.shape[0], tensor.shape[1]};
  }

  Embedding position() const {
    const std::string name = naming_.full(naming_.stack().position) + ".weight";
    switch (config_.positions) {
      case PositionKind::learned:
        return {reader_,
                {.tensor = name},
                config_.max_positions + config_.position_offset,
                config_.embedding_width};
      case PositionKind::sinusoidal:
        if (reader_.has(name))
          return {reader_, {.tensor = name}, config_.max_positions, config_.width};
        return sinusoidal_positions(config_.max_positions, config_.width);
      default:
        return {};
    }
  }

 private:
  struct Matrix {
    Buffer floats;
    int64_t rows, columns;
    bool transposed;
    View<const float, 2> view() const {
      const View<const float, 2> stored(floats.data(),
                                        {transposed ? columns : rows, transposed ? rows : columns});
      return transposed ? headwise::transposed(stored) : stored;
    }
  };

  /// [rows, columns] as nn.Linear has it, however it is stored.
  Matrix matrix(const std::string& name, int64_t rows, int64_t columns) const {
    const bool transposed = naming_.model().transposed;
    const TensorInfo& tensor =
        transposed ? reader_.take(name, {columns, rows}) : reader_.take(name, {rows, columns});
    return {reader_.floats(tensor), rows, columns, transposed};
  }

  Buffer bias(const std::string& name, int64_t size, bool exists = true) const {
    return config_.projection_bias && exists ? reader_.vector(name, size) : Buffer();
  }

  void read_projections(int64_t layer, const AttentionNames& names,
                        MultiHeadAttentionWeights& weights) const {
    const MultiHeadAttentionShape& s = weights.shape();
    const auto name = [&](std::string_view part, const char* ending) {
      return naming_.in_layer(layer, part) + ending;
    };
    const Matrix output = matrix(name(names.output, ".weight"), s.C, s.H * s.Dv);
    const Buffer output_bias =
        config_.output_bias ? reader_.vector(name(names.output, ".bias"), s.C) : Buffer();
    const OutputProjection to{.output = output.view(), .output_bias = vector_of(output_bias)};
    const int64_t q = s.queries(), k = s.keys(), v = s.values();
    if (naming_.model().storage == ProjectionStorage::separate) {
      const Matrix query = matrix(name(names.query, ".weight"), q, s.C);
      const Matrix key = matrix(name(names.key, ".weight"), k, s.Cs);
      const Matrix value = matrix(name(names.value, ".weight"), v, s.Cs);
      const Buffer query_bias = bias(name(names.query, ".bias"), q);
      const Buffer key_bias = bias(name(names.key, ".bias"), k, s.key_bias);
      const Buffer value_bias = bias(name(names.value, ".bias"), v, s.value_bias);
      weights.set(SeparateProjections{.query = query.view(),
                                      .key = key.view(),
                                      .value = value.view(),
                                      .query_bias = vector_of(query_bias),
                                      .key_bias = vector_of(key_bias),
                                      .value_bias = vector_of(value_bias)},
                  to);
      return;
    }
    Matrix fused = matrix(name(names.query, ".weight"), q + k + v, s.C);
    Buffer fused_bias = bias(name(names.query, ".bias"), q + k + v);
    if (naming_.model().storage == ProjectionStorage::fused_per_head) {
      fused.floats = deinterleave_qkv(fused.floats.data(), s.C, s);
      if (fused_bias.size() > 0) fused_bias = deinterleave_qkv(fused_bias.data(), 1, s);
    }
    weights.set(FusedProjections{.in_proj = fused.view(), .in_proj_bias = vector_of(fused_bias)},
                to);
  }

  /// From the query, key and value rows of every head in turn to all queries, all keys, all values.
  static Buffer deinterleave_qkv(const float* rows, int64_t columns,
                                 const MultiHeadAttentionShape& s) {
    Buffer apart(3 * s.H * s.D * columns);
    const int64_t part = s.D * columns;
    for (int64_t h = 0; h < s.H; ++h) {
      for (int64_t which = 0; which < 3; ++which) {
        std::copy_n(rows + (h * 3 + which) * part, part, apart.data() + (which * s.H + h) * part);
      }
    }
    return apart;
  }

  /// The rows of the stack's table that belong to the heads of a layer.
  Buffer relative_table(const AttentionConfig& attention) const {
    if (config_.relative.buckets == 0) return {};
    const int64_t R = config_.relative.buckets, H = stack_.heads;
    const TensorInfo& tensor =
        reader_.take(naming_.full(naming_.stack().relative_bias) + ".weight", {R, H});
    const Buffer all = reader_.floats(tensor);
    Buffer table(static_cast<int64_t>(attention.heads.size()) * R);
    for (size_t h = 0; h < attention.heads.size(); ++h) {
      for (int64_t r = 0; r < R; ++r) table[h * R + r] = all[r * H + attention.heads[h]];
    }
    return table;
  }

  const ModelConfig& config_;
  Side side_;
  const StackConfig& stack_;
  StackNaming naming_;
  WeightReader& reader_;
};

}  // namespace

Stack::Stack(const ModelConfig& config, Side side, const std::string& prefix,
             std::span<const AttentionSite> sites, WeightReader& reader)
    : config_(&config), side_(side) {
  const StackReader read(config, side, prefix, reader);
  const StackNaming& naming = read.naming();
  const WeightNames& names = naming.model();
  const StackNames& stack_names = naming.stack();
  const StackConfig& stack = stack_config(config, side);
  word_ = read.word();
  position_ = read.position();
  if (config.token_types > 0) {
    token_type_ = Embedding(reader, {.tensor = naming.full(names.token_type) + ".weight"},
                            config.token_types, config.embedding_width);
  }
  if (config.embedding_norm) {
    embedding_norm_ = read.norm(naming.full(names.embedding_norm), config.embedding_width);
  }
  if (config.embedding_width != config.width) {
    embedding_projection_ = read.linear(naming.full(names.embedding_projection), config.width,
                                        config.embedding_width, true);
  }
  if (config.relative.buckets > 0) {
    buckets_ = t5_buckets(config.relative.buckets, config.relative.max_distance, !stack.causal);
  }
  for (int64_t layer = 0; layer < stack.layers(); ++layer) {
    const auto site = [&](AttentionKind kind) -> const AttentionSite& {
      return site_of(sites, side, kind, layer);
    };
    std::vector<AttentionLayer> cross;
    if (!stack.cross.empty()) {
      cross.push_back(read.attention(layer, stack_names.cross, stack.cross[layer],
                                     site(AttentionKind::cross), true));
    }
    blocks_.emplace_back(
        config, stack.causal,
        read.attention(layer, stack_names.self, stack.attention[layer], site(AttentionKind::self),
                       false),
        std::move(cross), read.feed_forward(layer),
        read.norm(naming.in_layer(layer, stack_names.feed_forward_norm), config.width));
  }
  if (!stack_names.final_norm.empty()) {
    final_norm_ = read.norm(naming.full(stack_names.final_norm), config.width);
  }
}

Activations Stack::embed(const TokenBatch& batch, std::span<const int64_t> positions) const {
  const int64_t T = batch.rows();
  Activations words(T, config_->embedding_width);
  word_.gather(batch.ids, config_->embedding_scale, false, words.rows);
  if (position_.exists()) {
    position_.gather(position_rows(*config_, batch, positions), 1, true, words.rows);
  }
  if (token_type_.exists()) {
    const std::vector<int32_t> zeros(batch.types.empty() ? T : 0);
    token_type_.gather(batch.types.empty() ? zeros : batch.types, 1, true, words.rows);
  }
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
  input.buckets = buckets_;
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

}  // namespace headwise
