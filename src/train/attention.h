// An attention of a block in training, with all that belongs to it: projections, norms of queries
// and keys, rotary positions, relative bias, gates, dropout.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headwise/kernels/rotary.h"
#include "headwise/model/model.h"
#include "headwise/model/multi_head_attention.h"
#include "model/init_std.h"
#include "model/layers.h"
#include "model/stack_layout.h"
#include "train/parameter_list.h"

namespace headwise {

/// The bias table that all layers of a stack share (T5, MPNet).
class TrainedRelativeBias {
 public:
  TrainedRelativeBias() = default;
  TrainedRelativeBias(ParameterList& declare, const LayerName& name, const ModelConfig& config,
                      Side side, const Init& init);

  bool exists() const { return table_.exists(); }
  bool requires_grad() const { return table_.requires_grad(); }
  std::span<const int32_t> buckets() const { return buckets_; }

  /// [heads, buckets] of some heads: the table itself if these are all, else a copy in `room`.
  View<const float, 2> of(std::span<const int32_t> heads, Buffer& room) const;
  void add_gradient(View<const float, 2> dtable, std::span<const int32_t> heads) const;

 private:
  int64_t heads_ = 0;
  std::vector<int32_t> buckets_;
  Weights table_;  // [heads, buckets]
};

/// Rows that a loss looks at, increasing; none: all.
using WantedRows = std::optional<std::span<const int64_t>>;

/// What all blocks of a stack see in one pass.
struct StackPass {
  const PassOptions* options = nullptr;
  std::span<const int64_t> offsets{};    // of texts among the rows
  std::span<const int64_t> positions{};  // [T], of rows in their texts
  const RotaryTable* rotary = nullptr;   // or none

  // The encoder's side of cross attention.
  std::span<const int64_t> source_offsets{};
  View<const float, 2> source{};
  View<float, 2> dsource{};  // added to by backward

  double balance_scale = 0;  // of the gradients of balance losses

  /// Behind the self attention of the block, only these rows are computed.
  WantedRows wanted{};

  bool wants_gates() const { return options->dgates.data() != nullptr; }
  Dropout dropout(uint64_t stream) const {
    return {.p = options->dropout,
            .seed = options->seed,
            .stream = stream,
            .rows = wanted.value_or(std::span<const int64_t>())};
  }
};

class TrainedAttention {
 public:
  struct Tape {
    MultiHeadAttention::Pass pass;
    Attention params;
    Buffer queries, keys;  // before their norms
    Buffer relative;

    // Of a mixture of heads: gates before rows chose, likelihoods, gates, and the share of choices
    // that fell on each routed head.
    View<const float, 2> asked;
    GateScope asked_scope = GateScope::kHead;
    Rows likelihoods, gates;
    std::vector<double> share;
    double balance = 0;  // R Σ share * mean likelihood
  };
  /// Memory of backward, shared by all attentions.
  struct Scratch {
    Buffer dprojected, dprojected_source, dheads, dvalues, dtable, dgates;
    Rows dlikelihoods;
  };
  struct Place {
    const ModelConfig& config;
    const AttentionConfig& attention;
    const AttentionSite& site;
    const StackNaming& naming;
    const AttentionNames& names;
    const InitStd& init_std;
    const TrainedRelativeBias* relative = nullptr;  // or none
    uint64_t stream = 0;                            // of its random numbers
  };

  TrainedAttention(ParameterList& declare, const Place& place);

  /// From rows to the outputs of the heads, in the tape; `output` projects them, or those of the
  /// wanted rows.
  void attend(View<const float, 2> x, const StackPass& pass, Tape& tape) const;
  void output(const StackPass& pass, Tape& tape, View<float, 2> out,
              const Epilogue& epilogue) const;
  /// dy as `output` gave; dx, of all rows, may be dy if these are all.
  void backward(View<const float, 2> x, const StackPass& pass, Tape& tape, View<const float, 2> dy,
                const InputGradient& to, Scratch& scratch);

  /// The loss that spreads rows over routed heads, of what the tape has; 0 without routing.
  double balance_loss(const Tape& tape) const;

  bool requires_grad() const;
  void make_heads_equal();
  void gradient_norms(std::span<double> norms) const;  // [H]

 private:
  bool cross() const { return attention_.shape().cross; }
  bool rotates(const StackPass& pass) const;
  Attention attention_params(const StackPass& pass, Tape& tape) const;
  void choose(View<const float, 2> x, Tape& tape) const;
  void add_gate_gradients(const StackPass& pass, const Tape& tape,
                          View<const float, 2> dgates) const;
  void backward_choice(View<const float, 2> x, const StackPass& pass, const Tape& tape,
                       View<const float, 2> dgates, View<float, 2> dx, Rows& room) const;
  void declare_tensors(ParameterList& declare, const Place& place);

  const AttentionSite* site_;
  AttentionConfig config_;
  bool causal_;
  uint64_t stream_;
  MultiHeadAttention attention_;
  MultiHeadAttentionWeights gradients_;
  SharedParameterState weight_state_, bias_state_;
  Norm query_norm_, key_norm_;
  Weights router_;  // [R, C], or none
  const TrainedRelativeBias* relative_;
};

}  // namespace headwise
