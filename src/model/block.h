// A block of a transformer: self attention, cross attention where there is one, feed-forward, with
// norms and residuals in the order that the architecture has. It runs in place, and is trained with
// a tape.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/attention_layer.h"
#include "model/families/family.h"
#include "model/layers.h"

namespace headwise {

/// Memory of a pass, reused by all blocks.
struct BlockScratch {
  AttentionScratch attention;
  FeedForward::Scratch feed_forward;
  Rows normed, second, normed_rows;
  // With a tape.
  Rows branch, dbranch, dinner, second_dinner;
  Rows gathered, scattered;  // if only some rows are wanted
};

class Block {
 public:
  /// What backward needs of a pass.
  struct Tape {
    View<const float, 2> x;
    AttentionLayer::Tape self, cross;
    FeedForward::Tape feed_forward;
    // Of each sublayer: the norm of its input or the sum before the norm, and what leaves it.
    Rows self_inner, self_out, cross_inner, cross_out, inner, out;
  };
  struct Place {
    const ModelConfig& config;
    Side side;
    int64_t layer;
    std::span<const AttentionSite> sites;
    const StackNaming& naming;
    uint64_t& streams;  // of random numbers: the next one that is free
  };

  Block(WeightSource& source, const Place& place);

  /// Updates the residual stream x [T, C] in place. With a cache, the rows are the newest of their
  /// sequences.
  void forward(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
               BlockKvCache* kv_cache) const;
  /// The same as far as its last attention: without feed-forward.
  void attention_sublayers(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                           BlockKvCache* kv_cache) const;

  /// The block in steps, for activation patching. sum [T, C] = x + attention of
  /// x, before a norm that comes behind it; of a parallel block with feed-forward. The outputs of
  /// its heads are `heads_of` afterwards.
  void attend(AttentionKind which, View<const float, 2> x, const BlockInput& input,
              BlockScratch& scratch, View<float, 2> sum) const;
  /// From such sums to what leaves the attention; and from there, or from the sums, to what leaves
  /// the block; in place.
  void post_norm(AttentionKind attended, View<float, 2> sum) const;
  void feed_forward(View<float, 2> x, BlockScratch& scratch) const;
  void finish(AttentionKind attended, View<float, 2> sum, const BlockInput& input,
              BlockScratch& scratch) const;
  static View<float, 3> heads_of(AttentionKind which, const BlockScratch& scratch) {
    const AttentionScratch& of = scratch.attention;
    return which == AttentionKind::self ? of.pass.z : of.cross_pass.z;
  }

  /// out [R, C]: what leaves the block at some rows of x [T, C], which stays as it is. `rows_input`
  /// is the input with their offsets and positions. Not of a mixture of heads.
  void forward_rows(View<const float, 2> x, const BlockInput& input, std::span<const int64_t> rows,
                    const BlockInput& rows_input, BlockScratch& scratch, View<float, 2> out) const;

  /// With a tape: x [T, C], which the caller keeps until backward. Gives the rows after the block,
  /// in the tape: all, or the wanted ones.
  View<float, 2> forward(View<const float, 2> x, const BlockInput& input, Tape& tape,
                         BlockScratch& scratch) const;
  /// d, the gradient of what the block gave, is used up. Gives that of its input [T, C]: in d, or
  /// in the scratch if only some rows were wanted.
  View<float, 2> backward(View<float, 2> d, const BlockInput& input, Tape& tape,
                          BlockScratch& scratch) const;

  /// Whether it can leave out what is behind the attention for rows that are not wanted.
  bool narrows() const { return !parallel_ && attentions_.size() == 1; }
  /// The losses that spread rows over routed heads, of what the tape has.
  double balance_loss(const Tape& tape) const;
  bool requires_grad() const;

  /// Its attentions: self, then cross if there is one.
  std::span<const AttentionLayer> attentions() const { return attentions_; }
  const AttentionLayer& self() const { return attentions_.front(); }
  const AttentionLayer* cross() const {
    return attentions_.size() > 1 ? &attentions_.back() : nullptr;
  }

 private:
  /// The norm and the dropout of a branch of the residual stream.
  struct Around {
    Norm norm;
    uint64_t stream = 0;  // of its dropout
    bool drops = true;
  };

  size_t index_of(AttentionKind kind) const { return kind == AttentionKind::self ? 0 : 1; }

  /// x = x + f(norm(x)), or norm(x + f(x)); f writes to a matrix by an epilogue.
  template <class F>
  void residual(View<float, 2> x, const Norm& norm, BlockScratch& scratch, const F& f) const;
  void attention_sublayer(size_t which, View<float, 2> x, const BlockInput& input,
                          BlockScratch& scratch, BlockKvCache* kv_cache) const;

  Dropout dropout_of(const Around& around, const BlockInput& input) const;
  Dropout inside(const BlockInput& input) const;
  /// `to` = x + dropout(branch(from)); branch writes to a matrix by an epilogue.
  template <class Branch>
  void add_branch(View<const float, 2> from, View<const float, 2> x, const Dropout& drop,
                  View<float, 2> to, BlockScratch& scratch, const Branch& branch) const;
  /// `kept`: x, or the rows of it that the branch gives.
  template <class Branch>
  View<float, 2> forward(View<const float, 2> x, View<const float, 2> kept, const Around& around,
                         const BlockInput& input, Rows& inner, Rows& out, BlockScratch& scratch,
                         const Branch& branch) const;
  template <class Branch>
  View<float, 2> backward(View<float, 2> d, View<const float, 2> x, const Around& around,
                          const BlockInput& input, const Rows& inner, BlockScratch& scratch,
                          const Branch& branch) const;
  View<float, 2> forward_parallel(View<const float, 2> x, const BlockInput& input, Tape& tape,
                                  BlockScratch& scratch) const;
  View<float, 2> backward_parallel(View<float, 2> d, const BlockInput& input, Tape& tape,
                                   BlockScratch& scratch) const;

  NormPlace place_;
  bool parallel_;
  DropoutPlaces dropouts_;
  std::vector<AttentionLayer> attentions_;  // self, then cross
  std::vector<Around> around_attentions_;
  FeedForward feed_forward_;
  Around around_feed_forward_;
  uint64_t inside_stream_ = 0;
};

}  // namespace headwise
