// A block without a tape, and its weights.
#include "model/block.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "model/gather_rows.h"

namespace headwise {
namespace {

std::string block_name(const ModelConfig& config, Side side, int64_t layer) {
  if (!config.encoder_decoder()) return fmt::format("L{}", layer);
  return fmt::format("{}.L{}", side == Side::encoder ? "enc" : "dec", layer);
}

FeedForward make_feed_forward(WeightSource& source, const Block::Place& place) {
  const ModelConfig& config = place.config;
  const int64_t C = config.width, F = stack_config(config, place.side).intermediate;
  const StackNames& names = place.naming.stack();
  const auto linear = [&](const char* which, std::string_view tensor, int64_t outputs,
                          int64_t inputs) {
    const std::string name = block_name(config, place.side, place.layer);
    return Linear(source,
                  {fmt::format("{}.feed_forward.{}", name, which),
                   place.naming.in_layer(place.layer, tensor)},
                  {.outputs = outputs,
                   .inputs = inputs,
                   .bias = config.feed_forward_bias,
                   .transposed = place.naming.model().transposed});
  };
  Linear up = linear("up", config.glu ? names.glu_up : names.up, F, C);
  Linear gate = config.glu ? linear("gate", names.gate, F, C) : Linear();
  Linear down = linear("down", names.down, C, F);
  return {std::move(up), std::move(gate), std::move(down), config.activation};
}

}  // namespace

Block::Block(WeightSource& source, const Place& place)
    : place_(place.config.norm_place),
      parallel_(place.config.parallel),
      dropouts_(family_of(place.config).dropouts) {
  const StackConfig& stack = stack_config(place.config, place.side);
  const StackNames& names = place.naming.stack();
  const auto norm = [&](const std::string& name, std::string_view tensor) {
    return Norm(source, {name, place.naming.in_layer(place.layer, tensor)}, place.config,
                place.config.width);
  };
  const auto add_attention = [&](AttentionKind kind, const AttentionConfig& attention,
                                 const AttentionNames& attention_names) {
    const AttentionSite& site = site_of(place.sites, place.side, kind, place.layer);
    attentions_.emplace_back(source, AttentionLayer::Place{.config = place.config,
                                                           .attention = attention,
                                                           .site = site,
                                                           .naming = place.naming,
                                                           .names = attention_names,
                                                           .stream = place.streams++});
    around_attentions_.push_back({.norm = norm(site.name + ".attention_norm", attention_names.norm),
                                  .stream = place.streams++,
                                  .drops = dropouts_.attention_branch});
  };
  add_attention(AttentionKind::self, stack.attention[place.layer], names.self);
  if (!stack.cross.empty()) {
    add_attention(AttentionKind::cross, stack.cross[place.layer], names.cross);
  }
  feed_forward_ = make_feed_forward(source, place);
  const std::string name = block_name(place.config, place.side, place.layer);
  around_feed_forward_ = {.norm = norm(name + ".feed_forward_norm", names.feed_forward_norm),
                          .stream = place.streams++};
  inside_stream_ = place.streams++;
}

template <class F>
void Block::residual(View<float, 2> x, const Norm& norm, BlockScratch& scratch, const F& f) const {
  const View<float, 2> y = scratch.normed.like(x);
  if (place_ == NormPlace::before) {
    norm.forward(x, y);
    f(y, x, Epilogue{.accumulate = true});
  } else {
    f(x, y, Epilogue{.residual = x});
    norm.forward(y, x);
  }
}

void Block::attention_sublayer(size_t which, View<float, 2> x, const BlockInput& input,
                               BlockScratch& scratch, BlockKvCache* kv_cache) const {
  residual(x, around_attentions_[which].norm, scratch,
           [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
             attentions_[which].forward(from, input, scratch.attention, kv_cache, to, epilogue);
           });
}

void Block::attention_sublayers(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                                BlockKvCache* kv_cache) const {
  for (size_t which = 0; which < attentions_.size(); ++which) {
    attention_sublayer(which, x, input, scratch, kv_cache);
  }
}

void Block::feed_forward(View<float, 2> x, BlockScratch& scratch) const {
  if (parallel_) return;
  residual(x, around_feed_forward_.norm, scratch,
           [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
             feed_forward_.forward(from, to, epilogue, scratch.feed_forward);
           });
}

void Block::forward(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                    BlockKvCache* kv_cache) const {
  const View<float, 2> second = parallel_ ? scratch.second.like(x) : View<float, 2>();
  if (parallel_) around_feed_forward_.norm.forward(x, second);
  attention_sublayers(x, input, scratch, kv_cache);
  if (parallel_) {
    feed_forward_.forward(second, x, {.accumulate = true}, scratch.feed_forward);
  } else {
    feed_forward(x, scratch);
  }
}

void Block::attend(AttentionKind which, View<const float, 2> x, const BlockInput& input,
                   BlockScratch& scratch, View<float, 2> sum) const {
  const size_t index = index_of(which);
  View<const float, 2> from = x;
  if (place_ == NormPlace::before) {
    const View<float, 2> normed = scratch.normed.like(x);
    around_attentions_[index].norm.forward(x, normed);
    from = normed;
  }
  attentions_[index].forward(from, input, scratch.attention, nullptr, sum, {.residual = x});
  if (parallel_) {
    const View<float, 2> second = scratch.second.like(x);
    around_feed_forward_.norm.forward(x, second);
    feed_forward_.forward(second, sum, {.accumulate = true}, scratch.feed_forward);
  }
}

void Block::post_norm(AttentionKind attended, View<float, 2> sum) const {
  if (place_ == NormPlace::before) return;
  around_attentions_[index_of(attended)].norm.forward(sum, sum);
}

void Block::finish(AttentionKind attended, View<float, 2> sum, const BlockInput& input,
                   BlockScratch& scratch) const {
  post_norm(attended, sum);
  if (attended == AttentionKind::self && attentions_.size() > 1) {
    attention_sublayer(1, sum, input, scratch, nullptr);
  }
  feed_forward(sum, scratch);
}

void Block::forward_rows(View<const float, 2> x, const BlockInput& input,
                         std::span<const int64_t> rows, const BlockInput& rows_input,
                         BlockScratch& scratch, View<float, 2> out) const {
  gather_rows(x, rows, out);
  View<const float, 2> from = x, from_rows = out;
  if (place_ == NormPlace::before) {
    const View<float, 2> normed = scratch.normed.like(x);
    const View<float, 2> normed_rows = scratch.normed_rows.like(out);
    around_attentions_.front().norm.forward(x, normed);
    around_attentions_.front().norm.forward(out, normed_rows);
    from = normed;
    from_rows = normed_rows;
  }
  const View<float, 2> second = parallel_ ? scratch.second.like(out) : View<float, 2>();
  if (parallel_) around_feed_forward_.norm.forward(out, second);
  self().forward_rows(from, input, from_rows, rows_input, scratch.attention, out,
                      {.accumulate = true});
  if (parallel_) feed_forward_.forward(second, out, {.accumulate = true}, scratch.feed_forward);
  finish(AttentionKind::self, out, rows_input, scratch);
}

}  // namespace headwise
