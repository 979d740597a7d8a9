// config.json of a pruned model, in each of its forms.
#pragma once

#include <span>
#include <string>

#include "headwise/model/config.h"
#include "headwise/model/model.h"

namespace headwise {

/// With the heads whose gate is 0 among "pruned_heads", and with "auto_map" for those classes of
/// transformers that the architecture has, unless it is one that transformers does not know.
std::string compact_config(const std::string& config_json, const ModelConfig& config,
                           std::span<const AttentionSite> sites, std::span<const float> gates);

/// Whether a config points to modeling_headwise.py.
bool needs_modeling(const std::string& config_json);

/// From a compact config, with what it says, to one whose layers have as many heads each, without
/// "pruned_heads". Throws Error if the architecture has no such config, or the heads are not as it
/// needs them.
std::string uniform_config(const std::string& compact_json, const ModelConfig& compact);

}  // namespace headwise
