// config.json of a pruned model whose layers have as many heads each.
#pragma once

#include <string>

#include "headwise/model/config.h"

namespace headwise {

/// From a compact config, with what it says, to one without "pruned_heads". Throws Error if the
/// architecture has no such config, or the heads are not as it needs them.
std::string uniform_config(const std::string& compact_json, const ModelConfig& compact);

}  // namespace headwise
