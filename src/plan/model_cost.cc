// Counts from shapes alone.
#include "plan/model_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "model/head_tensors.h"
#include "model/stack_layout.h"

namespace headwise {

AttentionConfig without_heads(const AttentionConfig& attention, std::span<const uint8_t> kept) {
  AttentionConfig left = attention;
  left.heads.clear();
  left.kv_heads.clear();
  left.kv_head.clear();
  left.fixed.clear();
  const int64_t learned = std::ssize(attention.heads) - std::ssize(attention.fixed);
  std::vector<int32_t> index(attention.heads.size(), -1);
  for (int64_t h = 0; h < std::ssize(attention.heads); ++h) {
    if (!kept[h]) continue;
    const int32_t kv = attention.kv_heads[attention.kv_head[h]];
    const auto at = std::ranges::find(left.kv_heads, kv);
    index[h] = static_cast<int32_t>(left.heads.size());
    left.kv_head.push_back(static_cast<int32_t>(at - left.kv_heads.begin()));
    if (at == left.kv_heads.end()) left.kv_heads.push_back(kv);
    left.heads.push_back(attention.heads[h]);
    if (h >= learned) left.fixed.push_back(attention.fixed[h - learned]);
  }
  if (left.routing) {
    for (int32_t& head : left.routing->heads) {
      if (head >= 0) head = index[head];
    }
  }
  return left;
}

MultiHeadAttentionConfig kept_layer(const ModelConfig& config, const AttentionSite& site,
                                    std::span<const uint8_t> kept) {
  const std::span<const uint8_t> here = kept.subspan(site.first, site.heads.size());
  return layer_config(config, without_heads(attention_at(config, site), here),
                      site.kind == AttentionKind::cross);
}

ModelCost cost_of(const ModelSummary& summary, std::span<const uint8_t> kept, int64_t tokens) {
  const ModelConfig& config = summary.config;
  ModelCost cost{.parameters = summary.parameters};
  for (const AttentionSummary& attention : summary.attentions) {
    const AttentionCount left =
        count_attention(kept_layer(config, attention.site, kept), tokens, tokens);
    cost.parameters += left.parameters - count_attention(attention.shape, 0, 0).parameters;
    cost.multiply_adds += left.multiply_adds;
  }
  for (const StackConfig* stack : {&config.encoder, &config.decoder}) {
    cost.multiply_adds +=
        stack->layers() * (config.glu ? 3 : 2) * tokens * config.width * stack->intermediate;
  }
  return cost;
}

void expect(const std::string& name, double before, double after, Expected& expected) {
  expected[name] = after;
  expected[name + "_before"] = before;
}

void expect_heads(std::span<const uint8_t> kept, Expected& expected) {
  expect("heads", static_cast<double>(kept.size()),
         static_cast<double>(std::ranges::count(kept, 1)), expected);
}

void expect_cost(const ModelSummary& summary, std::span<const uint8_t> kept, Expected& expected) {
  const std::vector<uint8_t> all(kept.size(), 1);
  const ModelCost before = cost_of(summary, all), after = cost_of(summary, kept);
  expect("parameters", static_cast<double>(before.parameters),
         static_cast<double>(after.parameters), expected);
  expect("multiply_adds", static_cast<double>(before.multiply_adds),
         static_cast<double>(after.multiply_adds), expected);
}

int64_t heads_in_share(double share, int64_t heads) {
  return static_cast<int64_t>(std::floor(share * static_cast<double>(heads) + 1e-9));
}

}  // namespace headwise
