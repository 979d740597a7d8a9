// Forward and backward of a block.
#include "train/block.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/gather_rows.h"

namespace headwise {
namespace {

std::string layer_name(const ModelConfig& config, Side side, int64_t layer) {
  if (!config.encoder_decoder()) return fmt::format("L{}", layer);
  return fmt::format("{}.L{}", side == Side::encoder ? "enc" : "dec", layer);
}

FeedForward make_feed_forward(ParameterList& declare, const TrainedBlock::Place& place) {
  const ModelConfig& config = place.config;
  const int64_t C = config.width, F = stack_config(config, place.side).intermediate;
  const StackNames& names = place.naming.stack();
  const auto linear = [&](const char* which, std::string_view tensor, int64_t outputs,
                          int64_t inputs, double deviation) {
    const std::string name = layer_name(config, place.side, place.layer);
    return Linear(declare,
                  {fmt::format("{}.feed_forward.{}", name, which),
                   place.naming.in_layer(place.layer, tensor)},
                  {.outputs = outputs,
                   .inputs = inputs,
                   .bias = config.feed_forward_bias,
                   .transposed = place.naming.model().transposed},
                  Init::normal(deviation));
  };
  const InitStd& d = place.init_std;
  Linear up = linear("up", config.glu ? names.glu_up : names.up, F, C, d.up);
  Linear gate = config.glu ? linear("gate", names.gate, F, C, d.up) : Linear();
  Linear down = linear("down", names.down, C, F, d.down);
  return {std::move(up), std::move(gate), std::move(down), config.activation};
}

View<const float, 2> dropped(View<const float, 2> d, const Dropout& drop, Rows& room) {
  if (drop.p == 0) return d;
  dropout(d, drop, room.like(d));
  return room.view();
}

}  // namespace

TrainedBlock::TrainedBlock(ParameterList& declare, const Place& place)
    : place_(place.config.norm_place),
      parallel_(place.config.parallel),
      dropouts_(family_of(place.config).dropouts) {
  const StackConfig& stack = stack_config(place.config, place.side);
  const StackNames& names = place.naming.stack();
  const auto norm = [&](const std::string& name, std::string_view tensor) {
    return Norm(declare, {name, place.naming.in_layer(place.layer, tensor)}, place.config,
                place.config.width);
  };
  const auto add_attention = [&](AttentionKind kind, const AttentionConfig& attention,
                                 const AttentionNames& attention_names) {
    const AttentionSite& site = site_of(place.sites, place.side, kind, place.layer);
    const bool self = kind == AttentionKind::self;
    attentions_.emplace_back(declare,
                             TrainedAttention::Place{.config = place.config,
                                                     .attention = attention,
                                                     .site = site,
                                                     .naming = place.naming,
                                                     .names = attention_names,
                                                     .init_std = place.init_std,
                                                     .relative = self ? place.relative : nullptr,
                                                     .stream = place.streams++});
    attention_sublayers_.push_back(
        {.norm = norm(site.name + ".attention_norm", attention_names.norm),
         .stream = place.streams++,
         .drops = dropouts_.attention_branch});
  };
  add_attention(AttentionKind::self, stack.attention[place.layer], names.self);
  if (!stack.cross.empty()) {
    add_attention(AttentionKind::cross, stack.cross[place.layer], names.cross);
  }
  feed_forward_ = make_feed_forward(declare, place);
  const std::string name = layer_name(place.config, place.side, place.layer);
  feed_forward_sublayer_ = {.norm = norm(name + ".feed_forward_norm", names.feed_forward_norm),
                            .stream = place.streams++};
  inside_stream_ = place.streams++;
}

bool TrainedBlock::requires_grad() const {
  return feed_forward_.requires_grad() || feed_forward_sublayer_.norm.requires_grad() ||
         std::ranges::any_of(attentions_, &TrainedAttention::requires_grad) ||
         std::ranges::any_of(attention_sublayers_, [](const Sublayer& sublayer) {
           return sublayer.norm.requires_grad();
         });
}

Dropout TrainedBlock::dropout_of(const Sublayer& sublayer, const StackPass& pass) const {
  return sublayer.drops ? pass.dropout(sublayer.stream) : Dropout{};
}

Dropout TrainedBlock::inside(const StackPass& pass) const {
  return dropouts_.in_feed_forward ? pass.dropout(inside_stream_) : Dropout{};
}

template <class Branch>
void TrainedBlock::add_branch(View<const float, 2> from, View<const float, 2> x,
                              const Dropout& drop, View<float, 2> to, Scratch& scratch,
                              const Branch& branch) const {
  if (drop.p == 0) {
    branch(from, to, Epilogue{.residual = x});
  } else {
    const View<float, 2> room = scratch.branch.like(x);
    branch(from, room, Epilogue{});
    add_dropout(room, drop, x, to);
  }
}

template <class Branch>
View<float, 2> TrainedBlock::forward(View<const float, 2> x, View<const float, 2> kept,
                                     const Sublayer& sublayer, const StackPass& pass, Rows& inner,
                                     Rows& out, Scratch& scratch, const Branch& branch) const {
  const View<float, 2> result = out.like(kept);
  const Dropout drop = dropout_of(sublayer, pass);
  if (place_ == NormPlace::before) {
    sublayer.norm.forward(x, inner.like(x));
    add_branch(inner.view(), kept, drop, result, scratch, branch);
  } else {
    add_branch(x, kept, drop, inner.like(kept), scratch, branch);
    sublayer.norm.forward(inner.view(), result);
  }
  return result;
}

template <class Branch>
View<float, 2> TrainedBlock::backward(View<float, 2> d, View<const float, 2> x,
                                      const Sublayer& sublayer, const StackPass& pass,
                                      const Rows& inner, Scratch& scratch,
                                      const Branch& branch) const {
  const Dropout drop = dropout_of(sublayer, pass);
  View<float, 2> all = d;
  const auto spread = [&] {
    if (d.extent(0) == x.extent(0)) return;
    all = scratch.spread.like(x);
    scatter_rows(d, *pass.wanted, all);
  };
  if (place_ == NormPlace::before) {
    const View<float, 2> dinner = scratch.dinner.like(x);
    branch(inner.view(), dropped(d, drop, scratch.dbranch), InputGradient{.dx = dinner});
    spread();
    sublayer.norm.backward(x, dinner, {.dx = all, .add = true});
  } else {
    sublayer.norm.backward(inner.view(), d, {.dx = d});
    spread();
    branch(x, dropped(d, drop, scratch.dbranch), InputGradient{.dx = all, .add = true});
  }
  return all;
}

View<float, 2> TrainedBlock::forward(View<const float, 2> x, const StackPass& pass, Tape& tape,
                                     Scratch& scratch) const {
  tape.x = x;
  if (parallel_) return forward_parallel(x, pass, tape, scratch);
  View<const float, 2> kept = x;
  if (pass.wanted) {
    kept = scratch.picked.shaped(std::ssize(*pass.wanted), x.extent(1));
    gather_rows(x, *pass.wanted, scratch.picked.view());
  }
  const auto attend = [&](size_t which, TrainedAttention::Tape& of) {
    return [&, which](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
      attentions_[which].attend(from, pass, of);
      attentions_[which].output(pass, of, to, epilogue);
    };
  };
  View<float, 2> rows = forward(x, kept, attention_sublayers_[0], pass, tape.self_inner,
                                tape.self_out, scratch, attend(0, tape.self));
  if (attentions_.size() > 1) {
    rows = forward(rows, rows, attention_sublayers_[1], pass, tape.cross_inner, tape.cross_out,
                   scratch, attend(1, tape.cross));
  }
  return forward(rows, rows, feed_forward_sublayer_, pass, tape.inner, tape.out, scratch,
                 [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
                   feed_forward_.forward(from, inside(pass), to, epilogue, tape.feed_forward);
                 });
}

double TrainedBlock::balance_loss(const Tape& tape) const {
  return attentions_[0].balance_loss(tape.self) +
         (attentions_.size() > 1 ? attentions_[1].balance_loss(tape.cross) : 0);
}

View<float, 2> TrainedBlock::backward(View<float, 2> d, const StackPass& pass, Tape& tape,
                                      Scratch& scratch) {
  if (parallel_) return backward_parallel(d, pass, tape, scratch);
  const auto attend = [&](size_t which, TrainedAttention::Tape& of) {
    return [&, which](View<const float, 2> from, View<const float, 2> dy, const InputGradient& to) {
      attentions_[which].backward(from, pass, of, dy, to, scratch.attention);
    };
  };
  const bool cross = attentions_.size() > 1;
  const View<const float, 2> attended = cross ? tape.cross_out.view() : tape.self_out.view();
  backward(d, attended, feed_forward_sublayer_, pass, tape.inner, scratch,
           [&](View<const float, 2> from, View<const float, 2> dy, const InputGradient& to) {
             feed_forward_.backward(from, inside(pass), tape.feed_forward, dy, to,
                                    scratch.feed_forward);
           });
  if (cross) {
    backward(d, tape.self_out.view(), attention_sublayers_[1], pass, tape.cross_inner, scratch,
             attend(1, tape.cross));
  }
  return backward(d, tape.x, attention_sublayers_[0], pass, tape.self_inner, scratch,
                  attend(0, tape.self));
}

View<float, 2> TrainedBlock::forward_parallel(View<const float, 2> x, const StackPass& pass,
                                              Tape& tape, Scratch& scratch) const {
  const View<float, 2> first = tape.self_inner.like(x), second = tape.inner.like(x);
  attention_sublayers_[0].norm.forward(x, first);
  feed_forward_sublayer_.norm.forward(x, second);
  const View<float, 2> attended = tape.self_out.like(x), result = tape.out.like(x);
  add_branch(first, x, dropout_of(attention_sublayers_[0], pass), attended, scratch,
             [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
               attentions_[0].attend(from, pass, tape.self);
               attentions_[0].output(pass, tape.self, to, epilogue);
             });
  add_branch(second, attended, dropout_of(feed_forward_sublayer_, pass), result, scratch,
             [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
               feed_forward_.forward(from, inside(pass), to, epilogue, tape.feed_forward);
             });
  return result;
}

View<float, 2> TrainedBlock::backward_parallel(View<float, 2> d, const StackPass& pass, Tape& tape,
                                               Scratch& scratch) {
  const View<float, 2> first = scratch.dinner.like(d), second = scratch.second_dinner.like(d);
  attentions_[0].backward(tape.self_inner.view(), pass, tape.self,
                          dropped(d, dropout_of(attention_sublayers_[0], pass), scratch.dbranch),
                          {.dx = first}, scratch.attention);
  feed_forward_.backward(tape.inner.view(), inside(pass), tape.feed_forward,
                         dropped(d, dropout_of(feed_forward_sublayer_, pass), scratch.dbranch),
                         {.dx = second}, scratch.feed_forward);
  attention_sublayers_[0].norm.backward(tape.x, first, {.dx = d, .add = true});
  feed_forward_sublayer_.norm.backward(tape.x, second, {.dx = d, .add = true});
  return d;
}

}  // namespace headwise
