// Tensors of checkpoints that are no parameters.
#include "model/weight_names.h"

#include <algorithm>
#include <array>
#include <span>

namespace headwise {
namespace {

bool ends_with_any(std::string_view name, std::span<const char* const> endings) {
  return std::ranges::any_of(endings,
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

bool is_buffer(std::string_view name) {
  static constexpr std::array kEndings = {
      "embeddings.position_ids",
      ".attn.bias",  // with the point: GPT-2's c_attn.bias is a parameter
      ".attn.masked_bias",
      ".attention.bias",
      ".attention.masked_bias",
      "rotary_emb.inv_freq",
      "layer.1.EncDecAttention.relative_attention_bias.weight",
  };
  return ends_with_any(name, kEndings);
}

bool is_left_over(std::string_view name) {
  static constexpr std::array kUnused = {
      "pooler.dense.weight",
      "pooler.dense.bias",
      "cls.seq_relationship.weight",
      "cls.seq_relationship.bias",
  };
  return is_buffer(name) || ends_with_any(name, kUnused);
}

}  // namespace headwise
