// Which heads every attention of a model has: all, less those that were pruned.
#pragma once

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
/// "pruned_heads" names those that are gone, as transformers 4 writes it, {"0": [1, 3]}, or by
/// attention: {"enc.L0": [2], "cross.L1": [0, 1]}. A key/value head is gone when all of its query
/// heads are.
void set_heads(ConfigFields& fields, ModelConfig& config);

}  // namespace headwise
