// Checks that the heads of a stack fit its width and each other.
#include "model/families/stack_fields.h"

#include <fmt/format.h>

namespace headwise {
namespace {

// Far above any model; what it bounds is laid out before a tensor is seen.
constexpr int64_t kMostLayersRead = 4096;

}  // namespace

StackConfig read_stack(ConfigFields& fields, const ModelConfig& config, const StackFields& names,
                       bool causal, std::optional<int64_t> head_dim,
                       std::optional<int64_t> kv_heads) {
  StackConfig stack{.heads = fields.size_at_most(names.heads, kMostHeads), .causal = causal};
  stack.kv_heads = kv_heads.value_or(stack.heads);
  if (!head_dim && config.width % stack.heads != 0) {
    fields.object().refuse(names.heads, "the width does not divide among the heads",
                           fmt::format("a number that divides {}", config.width));
  }
  stack.head_dim = head_dim.value_or(config.width / stack.heads);
  if (stack.head_dim > kWidestHead) {
    fields.object().refuse(names.heads, "a head is too wide",
                           fmt::format("at most {} columns each", kWidestHead));
  }
  if (stack.heads % stack.kv_heads != 0) {
    fields.object().refuse("num_key_value_heads",
                           "the heads do not divide among the key/value heads",
                           fmt::format("a number that divides {}", stack.heads));
  }
  stack.attention.resize(fields.size_at_most(names.layers, kMostLayersRead));
  return stack;
}

}  // namespace headwise
