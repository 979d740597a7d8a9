// Counts heads of a layer, and one head in their place.
#include "headwise/model/head_cost.h"

#include <algorithm>

namespace headwise {
namespace {

HeadCost cost_of(const MultiHeadAttentionConfig& config, int64_t tokens) {
  const MultiHeadAttentionShape s = resolve(config);
  const AttentionCount count = count_attention(config, tokens, tokens);
  return {
      .heads = s.H,
      .kv_heads = s.K,
      .head_dim = s.D,
      .parameters = count.parameters,
      .parameters_without_output = count.parameters - s.H * s.Dv * s.C - (s.output_bias ? s.C : 0),
      .multiply_adds = count.multiply_adds,
      .distributions = s.H * tokens};
}

}  // namespace

std::optional<OneHeadComparison> compare_with_one_head(const ModelSummary& summary,
                                                       int64_t tokens) {
  const auto layer = std::ranges::max_element(
      summary.attentions, {}, [](const AttentionSummary& a) { return a.shape.heads; });
  if (layer == summary.attentions.end() || layer->shape.heads == 0) return std::nullopt;
  MultiHeadAttentionConfig one = layer->shape;
  one.heads = 1;
  one.kv_heads = 1;
  one.head_dim = layer->shape.heads * layer->site.head_dim;
  one.value_dim = layer->shape.heads * layer->site.value_dim;
  one.kv_head.clear();
  one.fixed.clear();
  return OneHeadComparison{.layer = layer->site.name,
                           .tokens = tokens,
                           .heads = cost_of(layer->shape, tokens),
                           .one = cost_of(one, tokens)};
}

}  // namespace headwise
