// The forward pass of a block.
#include "model/block.h"

#include <algorithm>
#include <functional>

#include "headwise/core/parallel.h"
#include "headwise/kernels/kv_cache.h"
#include "model/pick_rows.h"
#include "model/stack_layout.h"

namespace headwise {
namespace {

Attention attention_of(const AttentionLayer& layer, const ForwardOptions& options) {
  Attention how{.scale = layer.config.scale};
  set_gates(how, *layer.site, options.gates);
  return how;
}

/// With what the layer fills in, for those who look on.
Attention seen(Attention how, const AttentionLayer& layer, const MultiHeadAttention::Pass& pass,
               const KvCache* cache) {
  how.q = pass.q;
  how.k = cache == nullptr ? pass.k : cache->k();
  how.v = cache == nullptr ? pass.v : cache->v();
  how.kv_head = layer.attention.shape().kv_head;
  if (cache != nullptr) {
    how.k_offsets = cache->offsets();
    how.k_lengths = cache->lengths();
  }
  return how;
}

void attend(const AttentionLayer& layer, const Attention& how, MultiHeadAttention::Pass& pass,
            const KvCache* cache, ForwardObserver* observer) {
  AttentionObserver* const kernel =
      observer == nullptr ? nullptr : observer->watch(*layer.site, seen(how, layer, pass, cache));
  if (cache == nullptr) {
    layer.attention.attend(how, pass, kernel);
  } else {
    layer.attention.attend(how, pass, *cache, kernel);
  }
  if (observer != nullptr) {
    observer->attended(*layer.site, seen(how, layer, pass, cache), layer.attention, pass.z,
                       pass.lse);
  }
}

/// Who looks at heads is shown all of all rows; otherwise a mixture of heads computes what it uses.
bool is_gathered(const AttentionLayer& layer, const BlockInput& input) {
  const ForwardObserver* const observer = input.options->observer;
  return layer.routed && (observer == nullptr || !observer->wants_heads());
}

/// The layer that projects the rows of a pass.
const MultiHeadAttention& projecting(const AttentionLayer& layer, const BlockInput& input) {
  return is_gathered(layer, input) ? layer.routed->shared() : layer.attention;
}

/// The output projection; who wants to see it is shown it before the residual stream is added.
void output(const AttentionLayer& layer, const BlockInput& input,
            const MultiHeadAttention::Pass& pass, Buffer& room, View<float, 2> out,
            const Epilogue& epilogue) {
  ForwardObserver* const observer = input.options->observer;
  if (observer == nullptr || !observer->wants_projected()) {
    layer.attention.output(pass, out, epilogue);
    return;
  }
  const View<float, 2> rows(room.at_least(out.extent(0) * out.extent(1)), out.shape());
  layer.attention.output(pass, rows);
  observer->projected(*layer.site, rows);
  const View<const float, 2> residual = epilogue.accumulate ? out : epilogue.residual;
  parallel_panels(out.extent(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* const from = &rows(row, 0);
      std::transform(from, from + out.extent(1), &residual(row, 0), &out(row, 0), std::plus<>());
    }
  });
}

/// From projected rows to what the attention gives.
void attend_and_output(const AttentionLayer& layer, Attention how, View<const float, 2> x,
                       const RoutedAttention::Prepare& prepare, const BlockInput& input,
                       MultiHeadAttention::Pass& pass, const KvCache* cache, BlockScratch& scratch,
                       View<float, 2> out, const Epilogue& epilogue) {
  RoutedAttention::Scratch& routing = scratch.routing;
  if (layer.routed) {
    how.gates = layer.routed->choose(x, how, routing);
    how.gate_scope = GateScope::kRow;
  }
  if (!is_gathered(layer, input)) {
    attend(layer, how, pass, cache, input.options->observer);
    output(layer, input, pass, scratch.projected, out, epilogue);
    return;
  }
  const MultiHeadAttention& shared = layer.routed->shared();
  Attention of_all = how;
  of_all.gates = layer.routed->shared_gates(how.gates, routing);
  cache == nullptr ? shared.attend(of_all, pass) : shared.attend(of_all, pass, *cache);
  shared.output(pass, out, epilogue);
  layer.routed->add({.x = x,
                     .positions = input.positions,
                     .how = seen(how, layer, pass, cache),
                     .prepare = prepare},
                    out, routing);
}

View<float, 2> rows_like(View<const float, 2> x, Buffer& buffer) {
  return {buffer.at_least(x.extent(0) * x.extent(1)), x.shape()};
}

}  // namespace

Attention Block::self_attention(const BlockInput& input) const {
  Attention how = attention_of(self_, *input.options);
  how.q_offsets = input.offsets;
  how.mask = {.causal = causal_, .left = self_.config.left};
  if (self_.relative_table.size() > 0) {
    const int64_t H = self_.attention.shape().H;
    how.relative_bias = {.table = self_.relative_table.view({H, self_.relative_table.size() / H}),
                         .buckets = input.buckets};
  }
  return how;
}

void Block::place(View<float, 3> heads, const NormLayer& norm, std::span<const int64_t> positions,
                  const RotaryTable& rotary) const {
  if (norm.exists()) norm.per_head(heads);
  if (self_.config.rotary && rotary.width() > 0) rotate(heads, positions, rotary);
}

void Block::attend_self(View<const float, 2> x, const BlockInput& input, BlockScratch& scratch,
                        BlockMemory* memory, View<float, 2> out, const Epilogue& epilogue) const {
  MultiHeadAttention::Pass& pass = scratch.pass;
  projecting(self_, input).project(x, {}, pass);
  const auto prepare = [&](View<float, 3> queries, std::span<const int64_t> positions) {
    place(queries, self_.query_norm, positions, scratch.rotary);
  };
  prepare(pass.q, input.positions);
  place(pass.k, self_.key_norm, input.positions, scratch.rotary);
  Attention how = self_attention(input);
  KvCache* const cache = memory == nullptr ? nullptr : &memory->self;
  if (cache != nullptr) {
    cache->append(pass.k, pass.v, input.offsets);
    how.positions = input.positions;
  }
  attend_and_output(self_, how, x, prepare, input, pass, cache, scratch, out, epilogue);
}

void Block::attend_some(View<const float, 2> x, const BlockInput& input,
                        View<const float, 2> some_x, const BlockInput& some, BlockScratch& scratch,
                        View<float, 2> out, const Epilogue& epilogue) const {
  MultiHeadAttention::Pass& pass = scratch.pass;
  self_.attention.project_some(x, some_x, pass);
  place(pass.q, self_.query_norm, some.positions, scratch.rotary);
  place(pass.k, self_.key_norm, input.positions, scratch.rotary);
  Attention how = self_attention(some);
  how.k_offsets = input.offsets;
  how.positions = some.positions;
  headwise::attend(self_, how, pass, nullptr, some.options->observer);
  output(self_, some, pass, scratch.projected, out, epilogue);
}

void Block::attend_cross(View<const float, 2> x, const BlockInput& input, BlockScratch& scratch,
                         BlockMemory* memory, View<float, 2> out, const Epilogue& epilogue) const {
  const AttentionLayer& layer = cross_.front();
  MultiHeadAttention::Pass& pass = memory == nullptr ? scratch.cross_pass : memory->cross;
  const MultiHeadAttention& project = projecting(layer, input);
  if (input.source.extent(1) > 0) project.project_source(input.source, pass);
  project.project_queries(x, pass);
  Attention how = attention_of(layer, *input.options);
  how.q_offsets = input.cross_offsets;
  how.k_offsets = input.source_offsets;
  attend_and_output(layer, how, x, {}, input, pass, nullptr, scratch, out, epilogue);
}

template <class F>
void Block::residual(View<float, 2> x, const NormLayer& norm, BlockScratch& scratch,
                     const F& f) const {
  const View<float, 2> y = rows_like(x, scratch.normed);
  if (place_ == NormPlace::before) {
    norm(x, y);
    f(y, x, Epilogue{.accumulate = true});
  } else {
    f(x, y, Epilogue{.residual = x});
    norm(y, x);
  }
}

void Block::ask_source(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                       BlockMemory* memory) const {
  if (cross_.empty()) return;
  residual(x, cross_.front().norm, scratch,
           [&](View<const float, 2> from, View<float, 2> to, const Epilogue& how) {
             attend_cross(from, input, scratch, memory, to, how);
           });
}

void Block::attend_all(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                       BlockMemory* memory) const {
  residual(x, self_.norm, scratch,
           [&](View<const float, 2> from, View<float, 2> to, const Epilogue& how) {
             attend_self(from, input, scratch, memory, to, how);
           });
  ask_source(x, input, scratch, memory);
}

void Block::feed_forward(View<float, 2> x, BlockScratch& scratch) const {
  if (parallel_) return;
  residual(x, norm_, scratch,
           [&](View<const float, 2> from, View<float, 2> to, const Epilogue& how) {
             feed_forward_(from, to, how, scratch.feed_forward);
           });
}

void Block::forward(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                    BlockMemory* memory) const {
  const View<float, 2> second = parallel_ ? rows_like(x, scratch.second) : View<float, 2>();
  if (parallel_) norm_(x, second);
  attend_all(x, input, scratch, memory);
  if (parallel_) {
    feed_forward_(second, x, {.accumulate = true}, scratch.feed_forward);
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
    (self ? self_ : cross_.front()).norm(x, normed);
    from = normed;
  }
  if (self) {
    attend_self(from, input, scratch, nullptr, sum, {.residual = x});
  } else {
    attend_cross(from, input, scratch, nullptr, sum, {.residual = x});
  }
  if (parallel_) {
    const View<float, 2> second = rows_like(x, scratch.second);
    norm_(x, second);
    feed_forward_(second, sum, {.accumulate = true}, scratch.feed_forward);
  }
}

void Block::settle(AttentionKind attended, View<float, 2> sum) const {
  if (place_ == NormPlace::before) return;
  (attended == AttentionKind::self ? self_ : cross_.front()).norm(sum, sum);
}

void Block::finish(AttentionKind attended, View<float, 2> sum, const BlockInput& input,
                   BlockScratch& scratch) const {
  settle(attended, sum);
  if (attended == AttentionKind::self) ask_source(sum, input, scratch, nullptr);
  feed_forward(sum, scratch);
}

void Block::forward_some(View<const float, 2> x, const BlockInput& input,
                         std::span<const int64_t> rows, const BlockInput& some,
                         BlockScratch& scratch, View<float, 2> out) const {
  pick_rows(x, rows, out);
  View<const float, 2> from = x, from_some = out;
  if (place_ == NormPlace::before) {
    const View<float, 2> normed = rows_like(x, scratch.normed);
    const View<float, 2> normed_some = rows_like(out, scratch.some);
    self_.norm(x, normed);
    self_.norm(out, normed_some);
    from = normed;
    from_some = normed_some;
  }
  const View<float, 2> second = parallel_ ? rows_like(out, scratch.second) : View<float, 2>();
  if (parallel_) norm_(out, second);
  attend_some(from, input, from_some, some, scratch, out, {.accumulate = true});
  if (parallel_) feed_forward_(second, out, {.accumulate = true}, scratch.feed_forward);
  finish(AttentionKind::self, out, some, scratch);
}

}  // namespace headwise
