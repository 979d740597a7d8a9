// A block with a tape: forward and backward.
#include <algorithm>
#include <utility>

#include "model/block.h"
#include "model/gather_rows.h"

namespace headwise {
namespace {

View<const float, 2> dropped(View<const float, 2> d, const Dropout& drop, Rows& room) {
  if (drop.p == 0) return d;
  dropout(d, drop, room.like(d));
  return room.view();
}

}  // namespace

bool Block::requires_grad() const {
  return feed_forward_.requires_grad() || around_feed_forward_.norm.requires_grad() ||
         std::ranges::any_of(attentions_, &AttentionLayer::requires_grad) ||
         std::ranges::any_of(around_attentions_,
                             [](const Around& around) { return around.norm.requires_grad(); });
}

Dropout Block::dropout_of(const Around& around, const BlockInput& input) const {
  return around.drops ? input.dropout(around.stream) : Dropout{};
}

Dropout Block::inside(const BlockInput& input) const {
  return dropouts_.in_feed_forward ? input.dropout(inside_stream_) : Dropout{};
}

template <class Branch>
void Block::add_branch(View<const float, 2> from, View<const float, 2> x, const Dropout& drop,
                       View<float, 2> to, BlockScratch& scratch, const Branch& branch) const {
  if (drop.p == 0) {
    branch(from, to, Epilogue{.residual = x});
  } else {
    const View<float, 2> room = scratch.branch.like(x);
    branch(from, room, Epilogue{});
    add_dropout(room, drop, x, to);
  }
}

template <class Branch>
View<float, 2> Block::forward(View<const float, 2> x, View<const float, 2> kept,
                              const Around& around, const BlockInput& input, Rows& inner, Rows& out,
                              BlockScratch& scratch, const Branch& branch) const {
  const View<float, 2> result = out.like(kept);
  const Dropout drop = dropout_of(around, input);
  if (place_ == NormPlace::before) {
    around.norm.forward(x, inner.like(x));
    add_branch(inner.view(), kept, drop, result, scratch, branch);
  } else {
    add_branch(x, kept, drop, inner.like(kept), scratch, branch);
    around.norm.forward(inner.view(), result);
  }
  return result;
}

template <class Branch>
View<float, 2> Block::backward(View<float, 2> d, View<const float, 2> x, const Around& around,
                               const BlockInput& input, const Rows& inner, BlockScratch& scratch,
                               const Branch& branch) const {
  const Dropout drop = dropout_of(around, input);
  View<float, 2> all = d;
  const auto scatter = [&] {
    if (d.extent(0) == x.extent(0)) return;
    all = scratch.scattered.like(x);
    scatter_rows(d, *input.wanted, all);
  };
  if (place_ == NormPlace::before) {
    const View<float, 2> dinner = scratch.dinner.like(x);
    branch(inner.view(), dropped(d, drop, scratch.dbranch), InputGradient{.dx = dinner});
    scatter();
    around.norm.backward(x, dinner, {.dx = all, .add = true});
  } else {
    around.norm.backward(inner.view(), d, {.dx = d});
    scatter();
    branch(x, dropped(d, drop, scratch.dbranch), InputGradient{.dx = all, .add = true});
  }
  return all;
}

View<float, 2> Block::forward(View<const float, 2> x, const BlockInput& input, Tape& tape,
                              BlockScratch& scratch) const {
  tape.x = x;
  if (parallel_) return forward_parallel(x, input, tape, scratch);
  View<const float, 2> kept = x;
  if (input.wanted) {
    kept = scratch.gathered.shaped(std::ssize(*input.wanted), x.extent(1));
    gather_rows(x, *input.wanted, scratch.gathered.view());
  }
  const auto attend = [&](size_t which, AttentionLayer::Tape& of) {
    return [&, which](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
      attentions_[which].forward(from, input, of, scratch.attention, to, epilogue);
    };
  };
  View<float, 2> rows = forward(x, kept, around_attentions_[0], input, tape.self_inner,
                                tape.self_out, scratch, attend(0, tape.self));
  if (attentions_.size() > 1) {
    rows = forward(rows, rows, around_attentions_[1], input, tape.cross_inner, tape.cross_out,
                   scratch, attend(1, tape.cross));
  }
  return forward(rows, rows, around_feed_forward_, input, tape.inner, tape.out, scratch,
                 [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
                   feed_forward_.forward(from, inside(input), to, epilogue, tape.feed_forward);
                 });
}

double Block::balance_loss(const Tape& tape) const {
  return attentions_[0].balance_loss(tape.self) +
         (attentions_.size() > 1 ? attentions_[1].balance_loss(tape.cross) : 0);
}

View<float, 2> Block::backward(View<float, 2> d, const BlockInput& input, Tape& tape,
                               BlockScratch& scratch) const {
  if (parallel_) return backward_parallel(d, input, tape, scratch);
  const auto attend = [&](size_t which, AttentionLayer::Tape& of) {
    return [&, which](View<const float, 2> from, View<const float, 2> dy, const InputGradient& to) {
      attentions_[which].backward(from, input, of, dy, to, scratch.attention);
    };
  };
  const bool cross = attentions_.size() > 1;
  const View<const float, 2> attended = cross ? tape.cross_out.view() : tape.self_out.view();
  backward(d, attended, around_feed_forward_, input, tape.inner, scratch,
           [&](View<const float, 2> from, View<const float, 2> dy, const InputGradient& to) {
             feed_forward_.backward(from, inside(input), tape.feed_forward, dy, to,
                                    scratch.feed_forward);
           });
  if (cross) {
    backward(d, tape.self_out.view(), around_attentions_[1], input, tape.cross_inner, scratch,
             attend(1, tape.cross));
  }
  return backward(d, tape.x, around_attentions_[0], input, tape.self_inner, scratch,
                  attend(0, tape.self));
}

View<float, 2> Block::forward_parallel(View<const float, 2> x, const BlockInput& input, Tape& tape,
                                       BlockScratch& scratch) const {
  const View<float, 2> first = tape.self_inner.like(x), second = tape.inner.like(x);
  around_attentions_[0].norm.forward(x, first);
  around_feed_forward_.norm.forward(x, second);
  const View<float, 2> attended = tape.self_out.like(x), result = tape.out.like(x);
  add_branch(first, x, dropout_of(around_attentions_[0], input), attended, scratch,
             [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
               attentions_[0].forward(from, input, tape.self, scratch.attention, to, epilogue);
             });
  add_branch(second, attended, dropout_of(around_feed_forward_, input), result, scratch,
             [&](View<const float, 2> from, View<float, 2> to, const Epilogue& epilogue) {
               feed_forward_.forward(from, inside(input), to, epilogue, tape.feed_forward);
             });
  return result;
}

View<float, 2> Block::backward_parallel(View<float, 2> d, const BlockInput& input, Tape& tape,
                                        BlockScratch& scratch) const {
  const View<float, 2> first = scratch.dinner.like(d), second = scratch.second_dinner.like(d);
  attentions_[0].backward(tape.self_inner.view(), input, tape.self,
                          dropped(d, dropout_of(around_attentions_[0], input), scratch.dbranch),
                          {.dx = first}, scratch.attention);
  feed_forward_.backward(tape.inner.view(), inside(input), tape.feed_forward,
                         dropped(d, dropout_of(around_feed_forward_, input), scratch.dbranch),
                         {.dx = second}, scratch.feed_forward);
  around_attentions_[0].norm.backward(tape.x, first, {.dx = d, .add = true});
  around_feed_forward_.norm.backward(tape.x, second, {.dx = d, .add = true});
  return d;
}

}  // namespace headwise
