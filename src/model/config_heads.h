// Which heads every attention of a model has: all, less those that were pruned.
#pragma once

#include "model/config_fields.h"

namespace headwise {

/// Fills in the heads of every layer. "pruned_heads" names those that are gone, as transformers 4
/// writes it, {"0": [1, 3]}, or by attention: {"enc.L0": [2], "cross.L1": [0, 1]}. A key/value head
/// is gone when all of its query heads are.
void set_heads(ConfigFields& fields, ModelConfig& config);

}  // namespace headwise
