// What a stack is made of, by its config: the names of its tensors, the shapes of its attentions,
// the rows of its embeddings. Shared by the stacks that run and those that are trained.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/kernels/attention.h"
#include "headwise/model/config.h"
#include "headwise/model/model.h"
#include "headwise/model/multi_head_attention.h"
#include "model/weight_names.h"
#include "model/weight_reader.h"

namespace headwise {

const StackConfig& stack_config(const ModelConfig& config, Side side);

/// How many tokens its embedding knows.
int64_t stack_vocabulary(const ModelConfig& config, Side side);

/// The row of padding in embeddings, which gathers do not train; -1: the architecture has none.
int64_t padding_row(const ModelConfig& config);
int64_t position_padding_row(const ModelConfig& config);  // in that of positions

/// The names of the tensors of one stack, without ".weight" and ".bias".
class StackNaming {
 public:
  /// `prefix` is the base model's.
  StackNaming(const ModelConfig& config, Side side, std::string prefix);

  std::string full(std::string_view name) const { return prefix_ + std::string(name); }
  std::string in_layer(int64_t layer, std::string_view name) const;

  const WeightNames& model() const { return model_; }
  const StackNames& stack() const { return stack_; }

 private:
  const WeightNames& model_;
  const StackNames& stack_;
  std::string prefix_;
};

/// The prefix of the base model's tensors in a checkpoint, or "" if it was saved bare.
std::string find_prefix(const ModelConfig& config, const WeightReader& reader);

/// Whether a checkpoint has a tensor of this name.
using HasTensor = std::function<bool(const std::string&)>;

/// The embedding of tokens of a stack: its own, or that of both.
struct WordTensor {
  std::string name{};
  std::string copy{};  // its own, which a checkpoint may have beside that of both
  bool shared() const { return !copy.empty(); }
};
WordTensor word_tensor(const ModelConfig& config, const StackNaming& naming, const HasTensor& has);

MultiHeadAttentionConfig layer_config(const ModelConfig& config, const AttentionConfig& attention,
                                      bool cross);

/// The router of a mixture of heads, in its layer.
std::string_view router_name(bool cross);

const AttentionSite& site_of(std::span<const AttentionSite> sites, Side side, AttentionKind kind,
                             int64_t layer);

/// The attention of a head, counted through the model; null: there is no such head.
const AttentionSite* site_of_head(std::span<const AttentionSite> sites, int64_t head);

/// Gives an attention its gates, out of those of the whole model.
void set_gates(Attention& params, const AttentionSite& site, View<const float, 2> gates);

/// Throws Error unless gates, if any, are one per head for all texts or for each.
void check_gates(View<const float, 2> gates, std::span<const AttentionSite> sites, int64_t texts);

/// The rows of the table of learned positions that rows at these positions of their texts read.
std::vector<int32_t> position_rows(const ModelConfig& config, const TokenBatch& batch,
                                   std::span<const int64_t> positions);

/// Throws Error for a text that is longer than the model's positions, unless those can be
/// stretched, or an id or a type that it does not know.
void check_tokens(const ModelConfig& config, Side side, const TokenBatch& batch,
                  std::span<const int64_t> positions, bool dynamic_ntk);

}  // namespace headwise
