// An attention of a block without a tape, and its weights.
#include "model/attention_layer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "headwise/core/parallel.h"
#include "headwise/core/seed.h"
#include "headwise/kernels/softmax.h"
#include "model/routing.h"

namespace headwise {
namespace {

/// A seed of its own for every attention, since its kernel draws from a seed alone.
uint64_t seed_of_attention(uint64_t seed, uint64_t stream) {
  return derived_seed(seed, stream, 0, 0xa77e);
}

WeightType packed_type(Dtype dtype) {
  if (dtype == Dtype::kF16) return WeightType::float16;
  return dtype == Dtype::kBF16 ? WeightType::bfloat16 : WeightType::float32;
}

/// Declares the projections of an attention as tensors of a checkpoint.
class ProjectionTensors {
 public:
  ProjectionTensors(WeightSource& source, const AttentionLayer::Place& place,
                    const MultiHeadAttentionWeights& weights,
                    const std::optional<MultiHeadAttentionWeights>& gradients)
      : source_(source), place_(place), weights_(weights), gradients_(gradients) {}

  /// Gives the types in which its matrices can be packed.
  MultiHeadAttention::PackedTypes declare() const {
    using W = MultiHeadAttentionWeights;
    const MultiHeadAttentionShape& s = weights_.shape();
    const AttentionNames& names = place_.names;
    Dtype projections = Dtype::kF32;
    switch (place_.naming.model().storage) {
      case ProjectionStorage::separate:
        projections = matrix(names.query, &W::query);
        if (matrix(names.key, &W::key) != projections) projections = Dtype::kF32;
        if (matrix(names.value, &W::value) != projections) projections = Dtype::kF32;
        if (!s.projection_bias) break;
        bias(names.query, &W::query_bias);
        if (s.key_bias) bias(names.key, &W::key_bias);
        if (s.value_bias) bias(names.value, &W::value_bias);
        break;
      case ProjectionStorage::fused:
        projections = matrix(names.query, &W::in_proj);
        if (s.projection_bias) bias(names.query, &W::in_proj_bias);
        break;
      case ProjectionStorage::fused_per_head: {
        const int64_t rows = 3 * s.H * s.D;
        projections = source_.tensor(name(names.query, ".weight"), {rows, s.C},
                                     per_head(part(&W::in_proj), s.H, s.D));
        if (!s.projection_bias) break;
        source_.tensor(name(names.query, ".bias"), {rows},
                       per_head(transposed(part(&W::in_proj_bias)), s.H, s.D));
        break;
      }
    }
    const Dtype output = matrix(names.output, &W::output);
    if (s.output_bias) bias(names.output, &W::output_bias);
    return {.projections = packed_type(projections), .output = packed_type(output)};
  }

 private:
  using Matrix = View<float, 2> (MultiHeadAttentionWeights::*)() const;
  using Vector = View<float, 1> (MultiHeadAttentionWeights::*)() const;

  static View<float, 2> row(View<float, 1> v) { return {v.data(), {1, v.extent(0)}}; }

  TensorPart part(Matrix of) const {
    return {.values = (weights_.*of)(),
            .gradient = gradients_ ? ((*gradients_).*of)() : View<float, 2>()};
  }
  TensorPart part(Vector of) const {
    return {.values = row((weights_.*of)()),
            .gradient = gradients_ ? row(((*gradients_).*of)()) : View<float, 2>()};
  }

  /// The query, key and value rows of every head in turn (GPT-NeoX).
  static std::vector<TensorPart> per_head(const TensorPart& all, int64_t heads, int64_t width) {
    std::vector<TensorPart> parts;
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t which = 0; which < 3; ++which) {
        const int64_t begin = (which * heads + h) * width;
        parts.push_back(all.rows(begin, begin + width));
      }
    }
    return parts;
  }

  std::string name(std::string_view which, const char* ending) const {
    return place_.naming.in_layer(place_.site.layer, which) + ending;
  }
  Dtype matrix(std::string_view which, Matrix of) const {
    const TensorPart all = place_.naming.model().transposed ? transposed(part(of)) : part(of);
    return source_.tensor(name(which, ".weight"), {all.values.extent(0), all.values.extent(1)},
                          {all});
  }
  void bias(std::string_view which, Vector of) const {
    const TensorPart all = part(of);
    source_.tensor(name(which, ".bias"), {all.values.extent(1)}, {all});
  }

  WeightSource& source_;
  const AttentionLayer::Place& place_;
  const MultiHeadAttentionWeights& weights_;
  const std::optional<MultiHeadAttentionWeights>& gradients_;
};

}  // namespace

RelativeBiasTable::RelativeBiasTable(WeightSource& source, const LayerName& name,
                                     const ModelConfig& config, Side side)
    : buckets_(t5_buckets(config.relative.buckets, config.relative.max_distance,
                          !stack_config(config, side).causal)),
      table_(source.matrix(name.weight(), stack_config(config, side).heads, config.relative.buckets,
                           {.transposed = true, .decays = false, .plain = true})) {}

View<const float, 2> RelativeBiasTable::of(std::span<const int32_t> heads, Buffer& room) const {
  const View<const float, 2> all = table_.matrix();
  if (std::ssize(heads) == all.extent(0)) return all;
  const int64_t R = all.extent(1);
  const View<float, 2> some(room.at_least(std::ssize(heads) * R), {std::ssize(heads), R});
  for (size_t h = 0; h < heads.size(); ++h) std::copy_n(&all(heads[h], 0), R, &some(h, 0));
  return some;
}

void RelativeBiasTable::add_gradient(View<const float, 2> dtable,
                                     std::span<const int32_t> heads) const {
  const View<float, 2> all = table_.take_gradient().sums;
  for (size_t h = 0; h < heads.size(); ++h) {
    for (int64_t r = 0; r < all.extent(1); ++r) all(heads[h], r) += dtable(h, r);
  }
}

AttentionLayer::AttentionLayer(WeightSource& source, const Place& place)
    : site_(&place.site),
      config_(place.attention),
      causal_(place.site.kind == AttentionKind::self &&
              stack_config(place.config, place.site.side).causal),
      stream_(place.stream),
      attention_([&] {
        MultiHeadAttentionWeights weights(
            layer_config(place.config, place.attention, place.site.kind == AttentionKind::cross));
        if (!source.packs()) gradients_ = weights.zeros();
        const auto gradient = [&](std::span<float> (MultiHeadAttentionWeights::*of)() const) {
          return gradients_ ? ((*gradients_).*of)() : std::span<float>();
        };
        using W = MultiHeadAttentionWeights;
        const std::string name = place.site.name + ".attention.";
        weight_state_ =
            source.parameter(name + "weights", weights.matrices(), gradient(&W::matrices), true);
        bias_state_ =
            source.parameter(name + "biases", weights.biases(), gradient(&W::biases), false);
        const auto types = ProjectionTensors(source, place, weights, gradients_).declare();
        using Storage = MultiHeadAttention::Storage;
        return MultiHeadAttention(std::move(weights),
                                  source.packs() ? Storage::packed : Storage::plain, types);
      }()) {
  const std::string name = site_->name + ".attention.";
  const auto in_layer = [&](std::string_view tensor) {
    return place.naming.in_layer(site_->layer, tensor);
  };
  if (place.config.qk_norm && !cross()) {
    const int64_t D = attention_.shape().D;
    query_norm_ =
        Norm(source, {name + "query_norm", in_layer(place.names.query_norm)}, place.config, D);
    key_norm_ = Norm(source, {name + "key_norm", in_layer(place.names.key_norm)}, place.config, D);
  }
  if (!config_.routing) return;
  router_ = source.matrix({name + "router", in_layer(router_name(cross())) + ".weight"},
                          std::ssize(config_.routing->heads), attention_.shape().C, {});
  if (source.packs()) routed_.emplace(attention_, *config_.routing);
}

bool AttentionLayer::requires_grad() const {
  const auto trained = [](const SharedParameterState& state) {
    return state != nullptr && state->requires_grad;
  };
  return trained(weight_state_) || trained(bias_state_) || query_norm_.requires_grad() ||
         key_norm_.requires_grad() || router_.requires_grad();
}

Attention AttentionLayer::attention_params(const BlockInput& input, Buffer& relative_room) const {
  Attention params{.q_offsets = cross() ? input.cross_offsets : input.offsets,
                   .scale = config_.scale,
                   .dropout = input.drop.attention,
                   .head_dropout = input.drop.head,
                   .seed = seed_of_attention(input.drop.seed, stream_)};
  set_gates(params, *site_, input.options->gates);
  if (cross()) {
    params.k_offsets = input.source_offsets;
    return params;
  }
  params.mask = {.causal = causal_, .left = config_.left};
  if (input.relative != nullptr) {
    params.relative_bias = {.table = input.relative->of(config_.heads, relative_room),
                            .buckets = input.relative->buckets()};
  }
  return params;
}

void AttentionLayer::apply_qk_norm_rope(View<float, 3> heads, const Norm& norm,
                                        std::span<const int64_t> positions,
                                        const RotaryTable& rotary) const {
  if (norm.exists()) norm.forward(heads);
  if (rotates(rotary)) rotate(heads, positions, rotary);
}

/// An observer of heads gets all heads of all rows; without one, routed heads are computed only
/// where they are used.
bool AttentionLayer::is_gathered(const BlockInput& input) const {
  const ForwardObserver* const observer = input.options->observer;
  return routed_ && (observer == nullptr || !observer->wants_heads());
}

/// The layer that projects the rows of a pass.
const MultiHeadAttention& AttentionLayer::projecting(const BlockInput& input) const {
  return is_gathered(input) ? routed_->shared() : attention_;
}

/// The parameters with q, k, v filled in, for observers.
Attention AttentionLayer::seen(Attention params, const MultiHeadAttention::Pass& pass,
                               const KvCache* cache) const {
  params.q = pass.q;
  params.k = cache == nullptr ? pass.k : cache->k();
  params.v = cache == nullptr ? pass.v : cache->v();
  params.kv_head = attention_.shape().kv_head;
  if (cache != nullptr) {
    params.k_offsets = cache->offsets();
    params.k_lengths = cache->lengths();
  }
  return params;
}

void AttentionLayer::attend(const Attention& params, MultiHeadAttention::Pass& pass,
                            const KvCache* cache, ForwardObserver* observer) const {
  AttentionObserver* const kernel =
      observer == nullptr ? nullptr
                          : observer->attention_observer(*site_, seen(params, pass, cache));
  if (cache == nullptr) {
    attention_.attend(params, pass, kernel);
  } else {
    attention_.attend(params, pass, *cache, kernel);
  }
  if (observer != nullptr) {
    observer->on_z(*site_, seen(params, pass, cache), attention_, pass.z, pass.lse);
  }
}

/// Output projection. Hooks see it before the residual is added.
void AttentionLayer::output(const BlockInput& input, const MultiHeadAttention::Pass& pass,
                            Buffer& room, View<float, 2> out, const Epilogue& epilogue) const {
  ForwardObserver* const observer = input.options->observer;
  if (observer == nullptr || !observer->wants_attn_out()) {
    attention_.output(pass, out, epilogue);
    return;
  }
  const View<float, 2> rows(room.at_least(out.extent(0) * out.extent(1)), out.shape());
  attention_.output(pass, rows);
  observer->on_attn_out(*site_, rows);
  const View<const float, 2> residual = epilogue.accumulate ? out : epilogue.residual;
  parallel_panels(out.extent(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const from = &rows(row, 0);
      std::transform(from, from + out.extent(1), &residual(row, 0), &out(row, 0), std::plus<>());
    }
  });
}

std::vector<int64_t> AttentionLayer::choose(View<const float, 2> x, Rows& likelihoods, Rows& gates,
                                            Attention& params) const {
  const View<float, 2> p = likelihoods.shaped(x.extent(0), router_.rows());
  router_.multiply(x, p, {});
  softmax(p);
  const View<float, 2> to = gates.shaped(x.extent(0), attention_.shape().H);
  std::vector<int64_t> chosen = choose_heads(*config_.routing, p, params, to);
  params.gates = to;
  params.gate_scope = GateScope::kRow;
  return chosen;
}

/// From projected rows to what the attention gives.
void AttentionLayer::attend_and_output(Attention params, View<const float, 2> x,
                                       const BlockInput& input, MultiHeadAttention::Pass& pass,
                                       const KvCache* cache, AttentionScratch& scratch,
                                       View<float, 2> out, const Epilogue& epilogue) const {
  if (is_routed()) choose(x, scratch.likelihoods, scratch.gates, params);
  if (!is_gathered(input)) {
    attend(params, pass, cache, input.options->observer);
    output(input, pass, scratch.projected, out, epilogue);
    return;
  }
  const MultiHeadAttention& shared = routed_->shared();
  Attention of_all = params;
  of_all.gates = routed_->shared_gates(params.gates, scratch.routing);
  cache == nullptr ? shared.attend(of_all, pass) : shared.attend(of_all, pass, *cache);
  shared.output(pass, out, epilogue);
  const auto prepare = [&](View<float, 3> queries, std::span<const int64_t> positions) {
    apply_qk_norm_rope(queries, query_norm_, positions, scratch.rotary);
  };
  routed_->add({.x = x,
                .positions = input.positions,
                .params = seen(params, pass, cache),
                .prepare = prepare},
               out, scratch.routing);
}

void AttentionLayer::forward(View<const float, 2> x, const BlockInput& input,
                             AttentionScratch& scratch, BlockKvCache* kv_cache, View<float, 2> out,
                             const Epilogue& epilogue) const {
  if (cross()) {
    MultiHeadAttention::Pass& pass = kv_cache == nullptr ? scratch.cross_pass : kv_cache->cross;
    const MultiHeadAttention& project = projecting(input);
    if (input.source.extent(1) > 0) project.project_source(input.source, pass);
    project.project_queries(x, pass);
    attend_and_output(attention_params(input, scratch.relative), x, input, pass, nullptr, scratch,
                      out, epilogue);
    return;
  }
  MultiHeadAttention::Pass& pass = scratch.pass;
  projecting(input).project(x, {}, pass);
  apply_qk_norm_rope(pass.q, query_norm_, input.positions, scratch.rotary);
  apply_qk_norm_rope(pass.k, key_norm_, input.positions, scratch.rotary);
  Attention params = attention_params(input, scratch.relative);
  KvCache* const cache = kv_cache == nullptr ? nullptr : &kv_cache->self;
  if (cache != nullptr) {
    cache->append(pass.k, pass.v, input.offsets);
    params.positions = input.positions;
  }
  attend_and_output(params, x, input, pass, cache, scratch, out, epilogue);
}

void AttentionLayer::forward_rows(View<const float, 2> x, const BlockInput& input,
                                  View<const float, 2> x_rows, const BlockInput& rows_input,
                                  AttentionScratch& scratch, View<float, 2> out,
                                  const Epilogue& epilogue) const {
  MultiHeadAttention::Pass& pass = scratch.pass;
  attention_.project_rows(x, x_rows, pass);
  apply_qk_norm_rope(pass.q, query_norm_, rows_input.positions, scratch.rotary);
  apply_qk_norm_rope(pass.k, key_norm_, input.positions, scratch.rotary);
  Attention params = attention_params(rows_input, scratch.relative);
  params.k_offsets = input.offsets;
  params.positions = rows_input.positions;
  attend(params, pass, nullptr, rows_input.options->observer);
  output(rows_input, pass, scratch.projected, out, epilogue);
}

}  // namespace headwise
