// A block of a transformer: self attention, cross attention where there is one, feed-forward, with
// their norms and residuals in the order that the architecture has.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "headwise/kernels/kv_cache.h"
#include "headwise/kernels/rotary.h"
#include "headwise/model/model.h"
#include "headwise/model/multi_head_attention.h"
#include "model/layers.h"
#include "model/routed_attention.h"

namespace headwise {

/// An attention with its config, norms and bias table.
struct AttentionLayer {
  AttentionConfig config{};
  const AttentionSite* site = nullptr;
  MultiHeadAttention attention;
  Norm norm{};
  Norm query_norm{}, key_norm{};            // per head, or none
  Buffer relative_table{};                  // [H, buckets], or none
  std::optional<RoutedAttention> routed{};  // a mixture of heads
};

/// Memory of a pass, reused by all blocks.
struct BlockScratch {
  Buffer normed, second, some, projected;
  MultiHeadAttention::Pass pass, cross_pass;
  RoutedAttention::Scratch routing;
  FeedForward::Scratch feed_forward;
  RotaryTable rotary;
};

/// The input that all blocks of a stack share in one pass.
struct BlockInput {
  std::span<const int64_t> offsets{};    // of texts among the rows
  std::span<const int64_t> positions{};  // [T], of rows in their texts
  std::span<const int32_t> buckets{};    // of relative distances, or none
  // Cross attention: rows grouped by the source that they ask, and the sources.
  std::span<const int64_t> cross_offsets{};
  std::span<const int64_t> source_offsets{};
  View<const float, 2> source{};  // none: already projected
  const ForwardOptions* options = nullptr;
  bool whole = true;  // otherwise what follows the last attention of all is left out
};

/// Keys and values kept between decoding steps: of the text so far and of the source.
struct BlockKvCache {
  KvCache self;
  MultiHeadAttention::Pass cross{};
};

class Block {
 public:
  Block(const ModelConfig& config, bool causal, AttentionLayer self,
        std::vector<AttentionLayer> cross, FeedForward feed_forward, Norm norm)
      : place_(config.norm_place),
        parallel_(config.parallel),
        causal_(causal),
        self_(std::move(self)),
        cross_(std::move(cross)),
        feed_forward_(std::move(feed_forward)),
        norm_(std::move(norm)) {}

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
    return which == AttentionKind::self ? scratch.pass.z : scratch.cross_pass.z;
  }

  /// out [R, C]: what leaves the block at some rows of x [T, C], which stays as it is. `some` is
  /// the input with offsets and positions of these. Not of a mixture of heads.
  void forward_rows(View<const float, 2> x, const BlockInput& input, std::span<const int64_t> rows,
                    const BlockInput& some, BlockScratch& scratch, View<float, 2> out) const;

  const AttentionLayer& self() const { return self_; }
  const AttentionLayer* cross() const { return cross_.empty() ? nullptr : &cross_.front(); }

 private:
  /// out by the epilogue = attention of x.
  void attend_self(View<const float, 2> x, const BlockInput& input, BlockScratch& scratch,
                   BlockKvCache* kv_cache, View<float, 2> out, const Epilogue& epilogue) const;
  void attend_rows(View<const float, 2> x, const BlockInput& input, View<const float, 2> x_rows,
                   const BlockInput& some, BlockScratch& scratch, View<float, 2> out,
                   const Epilogue& epilogue) const;
  void attend_cross(View<const float, 2> x, const BlockInput& input, BlockScratch& scratch,
                    BlockKvCache* kv_cache, View<float, 2> out, const Epilogue& epilogue) const;

  /// How rows attend to those of their text.
  Attention self_attention(const BlockInput& input) const;
  /// What is done to queries and keys at these positions before they attend.
  void apply_qk_norm_rope(View<float, 3> heads, const Norm& norm,
                          std::span<const int64_t> positions, const RotaryTable& rotary) const;
  /// From what leaves self attention to what leaves cross attention, if there is one.
  void cross_attention(View<float, 2> x, const BlockInput& input, BlockScratch& scratch,
                       BlockKvCache* kv_cache) const;

  /// x = x + f(norm(x)), or norm(x + f(x)); f writes to a matrix by an epilogue.
  template <class F>
  void residual(View<float, 2> x, const Norm& norm, BlockScratch& scratch, const F& f) const;

  NormPlace place_;
  bool parallel_;
  bool causal_;
  AttentionLayer self_;
  std::vector<AttentionLayer> cross_;  // one or none
  FeedForward feed_forward_;
  Norm norm_;  // of feed-forward
};

}  // namespace headwise
