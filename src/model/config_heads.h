// Which heads every attention of a model has: all, less those that were pruned.
#pragma once

#include <optional>
#include <string_view>

#include "model/config_fields.h"

namespace headwise {

/// Before the model_type of a config whose "headwise" object changes what is computed.
inline constexpr std::string_view kHeadwisePrefix = "headwise_";

/// Fills in the heads of every layer.
///
/// "headwise" has what the architecture has no field for: {"attention": {"L0": {"heads": 4,
/// "kv_heads": 2, "head_dim": 32, "value_dim": 16}, …}}, by the names of attentions; those that are
/// not named have the heads of their stack.
///
/// {"fixed": {"L0.H0": "previous", "L0.H1": "window(3)"}} gives heads a pattern instead of queries
/// and keys. {"routing": {"shared": 2, "active": 2, "balance": 0.01}} lets every row use, beside
/// the first `shared` learned heads and all fixed ones, only `active` of the others.
///
/// "pruned_heads" names those that are gone, as transformers 4 writes it, {"0": [1, 3]}, or by
/// attention: {"enc.L0": [2], "cross.L1": [0, 1]}. A key/value head is gone when all of its query
/// heads are.
void set_heads(ConfigFields& fields, ModelConfig& config);

/// The same from fields that stand elsewhere, for attentions that have no heads yet.
struct HeadFields {
  std::optional<JsonObject> attention{}, fixed{}, routing{}, pruned{};
};
void set_heads(const HeadFields& fields, ModelConfig& config);

}  // namespace headwise
