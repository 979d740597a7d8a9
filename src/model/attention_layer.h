// An attention of a block, with all that belongs to it: projections, norms of queries and keys,
// rotary positions, relative bias, gates, routing, dropout. It runs, and is trained with a tape.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headwise/kernels/dropout.h"
#include "headwise/kernels/kv_cache.h"
#include "headwise/kernels/rotary.h"
#include "headwise/model/model.h"
#include "headwise/model/multi_head_attention.h"
#include "model/layers.h"
#include "model/routed_attention.h"
#include "model/rows.h"
#include "model/stack_layout.h"
#include "model/weight_source.h"

namespace headwise {

/// The bias table that all layers of a stack share (T5, MPNet).
class RelativeBiasTable {
 public:
  RelativeBiasTable() = default;
  RelativeBiasTable(WeightSource& source, const LayerName& name, const ModelConfig& config,
                    Side side);

  bool exists() const { return table_.exists(); }
  bool requires_grad() const { return table_.requires_grad(); }
  std::span<const int32_t> buckets() const { return buckets_; }

  /// [heads, buckets] of some heads: the table itself if these are all, else a copy in `room`.
  View<const float, 2> of(std::span<const int32_t> heads, Buffer& room) const;
  void add_gradient(View<const float, 2> dtable, std::span<const int32_t> heads) const;

 private:
  std::vector<int32_t> buckets_;
  Weights table_;  // [heads, buckets]
};

/// Rows that a loss reads, increasing; none: all.
using WantedRows = std::optional<std::span<const int64_t>>;

/// Probabilities of dropping in one pass, and their seed.
struct PassDropout {
  float residual = 0;   // of embeddings and residual branches
  float attention = 0;  // of attention weights
  float head = 0;       // of whole heads
  uint64_t seed = 0;
};

/// The input that all blocks of a stack share in one pass.
struct BlockInput {
  std::span<const int64_t> offsets{};           // of texts among the rows
  std::span<const int64_t> positions{};         // [T], of rows in their texts
  const RelativeBiasTable* relative = nullptr;  // or none
  // Cross attention: rows grouped by the source that they attend to, and the sources.
  std::span<const int64_t> cross_offsets{};
  std::span<const int64_t> source_offsets{};
  View<const float, 2> source{};  // none: already projected
  const ForwardOptions* options = nullptr;
  bool whole = true;  // otherwise what follows the last attention of all is left out

  // With a tape.
  PassDropout drop{};
  WantedRows wanted{};       // behind the self attention of a block, only these rows are computed
  View<float, 2> dgates{};   // shaped as the gates, added to; empty: left out
  View<float, 2> dsource{};  // added to
  double balance_scale = 0;  // of the gradients of balance losses

  Dropout dropout(uint64_t stream) const {
    return {.p = drop.residual,
            .seed = drop.seed,
            .stream = stream,
            .rows = wanted.value_or(std::span<const int64_t>())};
  }
};

/// Memory of attentions that no pass needs any more when the next attention comes.
struct AttentionScratch {
  MultiHeadAttention::Pass pass, cross_pass;
  RoutedAttention::Scratch routing;
  RotaryTable rotary;  // empty: none
  Rows likelihoods, gates;
  Buffer projected, relative;
  // Of backward.
  Buffer dprojected, dprojected_source, dheads, dvalues, dtable, dgates;
  Rows dlikelihoods;
};

/// Keys and values kept between decoding steps: of the text so far and of the source.
struct BlockKvCache {
  KvCache self;
  MultiHeadAttention::Pass cross{};
};

class AttentionLayer {
 public:
  /// What backward needs of a pass.
  struct Tape {
    MultiHeadAttention::Pass pass;
    Attention params;
    Buffer queries, keys;  // before their norms
    Buffer relative;

    // Of a mixture of heads: gates before the rows chose, likelihoods, gates, and the share of
    // choices that fell on each routed head.
    View<const float, 2> own_gates;
    GateScope own_scope = GateScope::kHead;
    Rows likelihoods, gates;
    std::vector<double> share;
    double balance = 0;  // R Σ share * mean likelihood
  };
  struct Place {
    const ModelConfig& config;
    const AttentionConfig& attention;
    const AttentionSite& site;
    const StackNaming& naming;
    const AttentionNames& names;
    uint64_t stream = 0;  // of its random numbers
  };

  AttentionLayer(WeightSource& source, const Place& place);

  /// out by the epilogue = attention of x. With a cache, the rows are the newest of their
  /// sequences.
  void forward(View<const float, 2> x, const BlockInput& input, AttentionScratch& scratch,
               BlockKvCache* kv_cache, View<float, 2> out, const Epilogue& epilogue) const;
  /// The same for the rows `x_rows` alone; `rows_input` is the input with their
  /// offsets and positions.
  /// Not of cross attention, nor of a mixture of heads.
  void forward_rows(View<const float, 2> x, const BlockInput& input, View<const float, 2> x_rows,
                    const BlockInput& rows_input, AttentionScratch& scratch, View<float, 2> out,
                    const Epilogue& epilogue) const;

  /// With a tape: of all rows, or of the wanted ones.
  void forward(View<const float, 2> x, const BlockInput& input, Tape& tape,
               AttentionScratch& scratch, View<float, 2> out, const Epilogue& epilogue) const;
  /// dy as forward gave; dx, of all rows, may be dy if these are all.
  void backward(View<const float, 2> x, const BlockInput& input, Tape& tape,
                View<const float, 2> dy, const InputGradient& to, AttentionScratch& scratch) const;

  /// The loss that spreads rows over routed heads, of what the tape has; 0 without routing.
  double balance_loss(const Tape& tape) const;
  bool requires_grad() const;

  bool is_routed() const { return config_.routing.has_value(); }
  const MultiHeadAttention& attention() const { return attention_; }
  /// Of its projections; null unless it is trained.
  const MultiHeadAttentionWeights* gradients() const { return gradients_ ? &*gradients_ : nullptr; }

 private:
  bool cross() const { return attention_.shape().cross; }
  bool is_gathered(const BlockInput& input) const;
  const MultiHeadAttention& projecting(const BlockInput& input) const;
  Attention attention_params(const BlockInput& input, Buffer& relative_room) const;
  bool rotates(const RotaryTable& rotary) const {
    return !cross() && config_.rotary && rotary.width() > 0;
  }
  void apply_qk_norm_rope(View<float, 3> heads, const Norm& norm,
                          std::span<const int64_t> positions, const RotaryTable& rotary) const;
  Attention seen(Attention params, const MultiHeadAttention::Pass& pass,
                 const KvCache* cache) const;
  void attend(const Attention& params, MultiHeadAttention::Pass& pass, const KvCache* cache,
              ForwardObserver* observer) const;
  void output(const BlockInput& input, const MultiHeadAttention::Pass& pass, Buffer& room,
              View<float, 2> out, const Epilogue& epilogue) const;
  void attend_and_output(Attention params, View<const float, 2> x, const BlockInput& input,
                         MultiHeadAttention::Pass& pass, const KvCache* cache,
                         AttentionScratch& scratch, View<float, 2> out,
                         const Epilogue& epilogue) const;

  /// Gates of rows x, which keep those of the parameters. Returns how many rows chose each head.
  std::vector<int64_t> choose(View<const float, 2> x, Rows& likelihoods, Rows& gates,
                              Attention& params) const;
  void choose(View<const float, 2> x, Tape& tape) const;
  void add_gate_gradients(const BlockInput& input, const Tape& tape,
                          View<const float, 2> dgates) const;
  void backward_choice(View<const float, 2> x, const BlockInput& input, const Tape& tape,
                       View<const float, 2> dgates, View<float, 2> dx, Rows& room) const;

  const AttentionSite* site_;
  AttentionConfig config_;
  bool causal_;
  uint64_t stream_;
  std::optional<MultiHeadAttentionWeights> gradients_;
  SharedParameterState weight_state_, bias_state_;
  MultiHeadAttention attention_;
  Norm query_norm_, key_norm_;
  Weights router_;                         // [R, C], or none
  std::optional<RoutedAttention> routed_;  // of packed weights
};

}  // namespace headwise
