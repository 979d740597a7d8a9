// The forward pass of a block.
#include "model/block.h"

#include <algorithm>
#include <functional>

#include "headwise/core/parallel.h"
#include "headwise/kernels/kv_cache.h"
#include "model/gather_rows.h"
#include "model/stack_layout.h"

namespace headwise {
namespace {

Attention attention_of(const AttentionLayer& layer, const ForwardOptions& options) {
  Attention params{.scale = layer.config.scale};
  set_gates(params, *layer.site, options.gates);
  return params;
}

/// The parameters with q, k, v filled in, for observers.
Attention seen(Attention params, const AttentionLayer& layer, const MultiHeadAttention::Pass& pass,
               const KvCache* cache) {
  params.q = pass.q;
  params.k = cache == nullptr ? pass.k : cache->k();
  params.v = cache == nullptr ? pass.v : cache->v();
  params.kv_head = layer.attention.shape().kv_head;
  if (cache != nullptr) {
    params.k_offsets = cache->offsets();
    params.k_lengths = cache->lengths();
  }
  return params;
}

void attend(const AttentionLayer& layer, const Attention& params, MultiHeadAttention::Pass& pass,
            const KvCache* cache, ForwardObserver* observer) {
  AttentionObserver* const kernel =
      observer == nullptr
          ? nullptr
          : observer->attention_observer(*layer.site, seen(params, layer, pass, cache));
  if (cache == nullptr) {
    layer.attention.attend(params, pass, kernel);
  } else {
    layer.attention.attend(params, pass, *cache, kernel);
  }
  if (observer != nullptr) {
    observer->on_z(*layer.site, seen(params, layer, pass, cache), layer.attention, pass.z,
                   pass.lse);
  }
}

/// An observer of heads gets all heads of all rows; without one, routed heads are computed only
/// where they are used.
bool is_gathered(const AttentionLayer& layer, const BlockInput& input) {
  const ForwardObserver* const observer = input.options->observer;
  return layer.routed && (observer == nullptr || !observer->wants_heads());
}

/// The layer that projects the rows of a pass.
const MultiHeadAttention& projecting(const AttentionLayer& layer, const BlockInput& input) {
  return is_gathered(layer, input) ? layer.routed->shared() : layer.attention;
}

/// Output projection. Hooks see it before the residual is added.
void output(const AttentionLayer& layer, const BlockInput& input,
            const MultiHeadAttention::Pass& pass, Buffer& room, View<float, 2> out,
            const Epilogue& epilogue) {
  ForwardObserver* const observer = input.options->observer;
  if (observer == nullptr || !observer->wants_attn_out()) {
    layer.attention.output(pass, out, epilogue);
    return;
  }
  const View<float, 2> rows(room.at_least(out.extent(0) * out.extent(1)), out.shape());
  layer.attention.output(pass, rows);
  observer->on_attn_out(*layer.site, rows);
  const View<const float, 2> residual = epilogue.accumulate ? out : epilogue.residual;
  parallel_panels(out.extent(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const from = &rows(row, 0);
      std::transform(from, from + out.extent(1), &residual(row, 0), &out(row, 0), std::plus<>());
    }
  });
}

/// From projected rows to what the attention gives.
void attend_and_output(const AttentionLayer& layer, Attention params, View<const float, 2> x,
                       const RoutedAttention::Prepare& prepare, const BlockInput& input,
                       MultiHeadAttention::Pass& pass, const KvCache* cache, BlockScratch& scratch,
                       View<float, 2> out, const Epilogue& epilogue) {
  RoutedAttention::Scratch& routing = scratch.routing;
  if (layer.routed) {
    params.gates = layer.routed->choose(x, params, routing);
    params.gate_scope = GateScope::kRow;
  }
  if (!is_gathered(layer, input)) {
    attend(layer, params, pass, cache, input.options->observer);
    output(layer, input, pass, scratch.projected, out, epilogue);
    return;
  }
  const MultiHeadAttention& shared = layer.routed->shared();
  Attention of_all = params;
  of_all.gates = layer.routed->shared_gates(params.gates, routing);
  cache == nullptr ? shared.attend(of_all, pass) : shared.attend(of_all, pass, *cache);
  shared.output(pass, out, epilogue);
  layer.routed->add({.x = x,
                     .positions = input.positions,
                     .params = seen(params, layer, pass, cache),
                     .prepare = prepare},
                    out, routing);
}

View<float, 2> rows_like(View<const float, 2> x, Buffer& buffer) {
  return {buffer.at_least(x.extent(0) * x.extent(1)), x.shape()};
}

}  // namespace

Attention Block::self_attention(const BlockInput& input) const {
  Attention params = attention_of(self_, *input.options);
  params.q_offsets = input.offsets;
  params.mask = {.causal = causal_, .left = self_.config.left};
  if (self_.relative_table.size() > 0) {
    const int64_t H = self_.attention.shape().H;
    params.relative_bias = {
        .table = self_.relative_table.view({H, self_.relative_table.size() / H}),
        .buckets = input.buckets};
  }
  return params;
}

void Block::apply_qk_norm_rope(View<float, 3> heads, const Norm& norm,
                               std::span<const int64_t> positions,
                               const RotaryTable& rotary) const {
  if (norm.exists()) norm.forward(heads);
  if (self_.config.rotary && rotary.width() > 0) rotate(heads, positions, rotary);
}

void Block::attend_self(View<const float, 2> x, const BlockInput& input, BlockScratch& scratch,
                        BlockKvCache* kv_cache, View<float, 2> out,
                        const Epilogue& epilogue) const {
  MultiHeadAttention::Pass& pass = scratch.pass;
  projecting(self_, input).project(x, {}, pass);
  const auto prepare = [&](View<float, 3> queries, std::span<const int64_t> positions) {
    apply_qk_norm_rope(queries, self_.query_norm, positions, scratch.rotary);
  };
  prepare(pass.q, input.positions);
  apply_qk_norm_rope(pass.k, self_.key_norm, input.positions, scratch.rotary);
  Attention params = self_attention(input);
  KvCache* const cache = kv_cache == nullptr ? nullptr : &kv_cache->self;
  if (cache != nullptr) {
    cache->append(pass.k, pass.v, input.offsets);
    params.positions = input.positions;
  }
  attend_and_output(self_, params, x, prepare, input, pass, cache, scratch, out, epilogue);
}

void Block::attend_rows(View<const float, 2> x, const BlockInput& input,
                        View<const float, 2> x_rows, const BlockInput& some, BlockScratch& scratch,
                        View<float, 2> out, const Epilogue& epilogue) const {
  MultiHeadAttention::Pass& pass = scratch.pass;
  self_.attention.project_rows(x, x_rows, pass);
  apply_qk_norm_rope(pass.q, self_.query_norm, some.positions, scratch.rotary);
  apply_qk_norm_rope(pass.k, self_.key_norm, input.positions, scratch.rotary);
  Attention params = self_attention(some);
  params.k_offsets = input.offsets;
  params.positions = some.positions;
  headwise::attend(self_, params, pass, nullptr, some.options->observer);
  output(self_, some, pass, scratch.projected, out, epilogue);
}

void Block::attend_cross(View<const float, 2> x, const BlockInput& input, BlockScratch& scratch,
                         BlockKvCache* kv_cache, View<float, 2> out,
                         const Epilogue& epilogue) const {
  const AttentionLayer& layer = cross_.front();
  MultiHeadAttention::Pass& pass = kv_cache == nullptr ? scratch.cross_pass : kv_cache->cross;
  const MultiHeadAttention& project = projecting(layer, input);
  if (input.source.extent(1) > 0) project.project_source(input.source, pass);
  project.project_queries(x, pass);
  Attention params = attention_of(layer, *input.options);
  params.q_offsets = input.cross_offsets;
  params.k_offsets = input.source_offsets;
  attend_and_output(layer, params, x, {}, input, pass, nullptr, scratch, out, epilogue);
}

template <class F>
void Block::residual(View<float, 2> x, const Norm& norm, BlockScratch& scratch, const F& f) const {
  const View<float, 2> y = rows_like(x, scratch.normed);
  if (place_ == NormPlace::before) {
    norm.forward(x, y);
    f(y, x, Epilogue{.accumulate = true});
  } else {
    f(x, y, Epilogue{.residual = x});
    norm.forward(y, x);
  }
}

void Block::cross_attention(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                            BlockKvCache* kv_cache) const {
  if (cross_.empty()) return;
  residual(x, cross_.front().norm, scratch,
           [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
             attend_cross(from, input, scratch, kv_cache, to, epilogue);
           });
}

void Block::attention_sublayers(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                                BlockKvCache* kv_cache) const {
  residual(x, self_.norm, scratch,
           [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
             attend_self(from, input, scratch, kv_cache, to, epilogue);
           });
  cross_attention(x, input, scratch, kv_cache);
}

void Block::feed_forward(View<float, 2> x, BlockScratch& scratch) const {
  if (parallel_) return;
  residual(x, norm_, scratch,
           [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
             feed_forward_.forward(from, to, epilogue, scratch.feed_forward);
           });
}

void Block::forward(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                    BlockKvCache* kv_cache) const {
  const View<float, 2> second = parallel_ ? rows_like(x, scratch.second) : View<float, 2>();
  if (parallel_) norm_.forward(x, second);
  attention_sublayers(x, input, scratch, kv_cache);
  if (parallel_) {
    feed_forward_.forward(second, x, {.accumulate = true}, scratch.feed_forward);
  } else {
    feed_forward(x, scratch);
  }
}

void Block::attend(AttentionKind which, View<const float, 2> x, const BlockInput& input,
                   BlockScratch& scratch, View<float, 2> sum) const {
  const bool self = which == AttentionKind::self;
  View<const float, 2> from = x;
  if (place_ == NormPlace::before) {
    const View<float, 2> normed = rows_like(x, scratch.normed);
    (self ? self_ : cross_.front()).norm.forward(x, normed);
    from = normed;
  }
  if (self) {
    attend_self(from, input, scratch, nullptr, sum, {.residual = x});
  } else {
    attend_cross(from, input, scratch, nullptr, sum, {.residual = x});
  }
  if (parallel_) {
    const View<float, 2> second = rows_like(x, scratch.second);
    norm_.forward(x, second);
    feed_forward_.forward(second, sum, {.accumulate = true}, scratch.feed_forward);
  }
}

void Block::post_norm(AttentionKind attended, View<float, 2> sum) const {
  if (place_ == NormPlace::before) return;
  (attended == AttentionKind::self ? self_ : cross_.front()).norm.forward(sum, sum);
}

void Block::finish(AttentionKind attended, View<float, 2> sum, const BlockInput& input,
                   BlockScratch& scratch) const {
  post_norm(attended, sum);
  if (attended == AttentionKind::self) cross_attention(sum, input, scratch, nullptr);
  feed_forward(sum, scratch);
}

void Block::forward_rows(View<const float, 2> x, const BlockInput& input,
                         std::span<const int64_t> rows, const BlockInput& some,
                         BlockScratch& scratch, View<float, 2> out) const {
  gather_rows(x, rows, out);
  View<const float, 2> from = x, from_rows = out;
  if (place_ == NormPlace::before) {
    const View<float, 2> normed = rows_like(x, scratch.normed);
    const View<float, 2> normed_rows = rows_like(out, scratch.some);
    self_.norm.forward(x, normed);
    self_.norm.forward(out, normed_rows);
    from = normed;
    from_rows = normed_rows;
  }
  const View<float, 2> second = parallel_ ? rows_like(out, scratch.second) : View<float, 2>();
  if (parallel_) norm_.forward(out, second);
  attend_rows(from, input, from_rows, some, scratch, out, {.accumulate = true});
  if (parallel_) feed_forward_.forward(second, out, {.accumulate = true}, scratch.feed_forward);
  finish(AttentionKind::self, out, some, scratch);
}

}  // namespace headwise
