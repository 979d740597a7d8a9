// config.json of a model that has lost heads, and how transformers loads it.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "headwise/model/config.h"
#include "headwise/model/model.h"

namespace headwise {

inline constexpr size_t kLargestConfig = 16 << 20;  // bytes of a config.json

/// With the heads whose gate is 0 among "pruned_heads", and with "auto_map" for those classes of
/// transformers that the architecture has, unless it is one that transformers does not know.
/// `gates` as in ForwardOptions.
std::string compact_config(const std::string& config_json, const ModelConfig& config,
                           std::span<const AttentionSite> sites, std::span<const float> gates);

/// The Auto class of transformers that loads a model; empty if transformers has none.
std::string auto_class(const std::string& config_json);

/// Whether config.json points to the classes of modeling_headwise.py.
bool needs_modeling(const std::string& config_json);

/// Without the classes of modeling_headwise.py.
std::string without_modeling(const std::string& config_json);

/// config.json of a folder, with modeling_headwise.py beside it if it points there.
void write_config(const std::string& config_json, const std::filesystem::path& folder);

}  // namespace headwise
