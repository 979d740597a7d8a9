// A block of a transformer in training: self attention, cross attention where there is one,
// feed-forward, with norms and residuals in the order that the architecture has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/families/family.h"
#include "model/layers.h"
#include "train/attention.h"

namespace headwise {

class TrainedBlock {
 public:
  /// What backward needs of a pass.
  struct Tape {
    View<const float, 2> x;
    TrainedAttention::Tape self, cross;
    FeedForward::Tape feed_forward;
    // Of each sublayer: the norm of its input or the sum before the norm, and what leaves it.
    Rows self_inner, self_out, cross_inner, cross_out, inner, out;
  };
  struct Scratch {
    Rows branch, dbranch, dinner, second_dinner;
    Rows picked, spread;  // if only some rows are wanted
    TrainedAttention::Scratch attention;
    FeedForward::Scratch feed_forward;
  };
  struct Place {
    const ModelConfig& config;
    Side side;
    int64_t layer;
    std::span<const AttentionSite> sites;
    const StackNaming& naming;
    const InitStd& init_std;
    const TrainedRelativeBias* relative;  // or none
    uint64_t& streams;                    // of random numbers: the next one that is free
  };

  TrainedBlock(ParameterList& declare, const Place& place);

  /// Whether it can leave out what is behind the attention for rows that are not wanted.
  bool narrows() const { return !parallel_ && attentions_.size() == 1; }

  /// x [T, C], which the caller keeps until backward. Gives the rows after the block, in the tape:
  /// all, or the wanted ones.
  View<float, 2> forward(View<const float, 2> x, const StackPass& pass, Tape& tape,
                         Scratch& scratch) const;

  /// d, the gradient of what the block gave, is used up. Gives that of its input [T, C]: in d, or
  /// in the scratch if only some rows were wanted.
  View<float, 2> backward(View<float, 2> d, const StackPass& pass, Tape& tape, Scratch& scratch);

  /// The losses that spread rows over routed heads, of what the tape has.
  double balance_loss(const Tape& tape) const;

  bool requires_grad() const;

  /// Its attentions: one or two.
  std::span<TrainedAttention> attentions() { return attentions_; }

 private:
  struct Sublayer {
    Norm norm;
    uint64_t stream = 0;  // of its dropout
    bool drops = true;
  };

  Dropout dropout_of(const Sublayer& sublayer, const StackPass& pass) const;
  Dropout inside(const StackPass& pass) const;

  /// `to` = x + dropout(branch(from)); branch writes to a matrix by an epilogue.
  template <class Branch>
  void add_branch(View<const float, 2> from, View<const float, 2> x, const Dropout& drop,
                  View<float, 2> to, Scratch& scratch, const Branch& branch) const;
  /// `kept`: x, or the rows of it that the branch gives.
  template <class Branch>
  View<float, 2> forward(View<const float, 2> x, View<const float, 2> kept,
                         const Sublayer& sublayer, const StackPass& pass, Rows& inner, Rows& out,
                         Scratch& scratch, const Branch& branch) const;
  template <class Branch>
  View<float, 2> backward(View<float, 2> d, View<const float, 2> x, const Sublayer& sublayer,
                          const StackPass& pass, const Rows& inner, Scratch& scratch,
                          const Branch& branch) const;
  View<float, 2> forward_parallel(View<const float, 2> x, const StackPass& pass, Tape& tape,
                                  Scratch& scratch) const;
  View<float, 2> backward_parallel(View<float, 2> d, const StackPass& pass, Tape& tape,
                                   Scratch& scratch);

  NormPlace place_;
  bool parallel_;
  DropoutPlaces dropouts_;
  std::vector<TrainedAttention> attentions_;  // self, then cross
  std::vector<Sublayer> attention_sublayers_;
  FeedForward feed_forward_;
  Sublayer feed_forward_sublayer_;
  uint64_t inside_stream_ = 0;
};

}  // namespace headwise
