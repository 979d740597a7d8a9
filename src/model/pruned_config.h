// config.json without some heads.
#pragma once

#include <span>
#include <string>

#include "headwise/model/model.h"

namespace headwise {

/// The text with the heads whose gate is 0 among its "pruned_heads". `gates` as in ForwardOptions.
std::string config_without_closed(const std::string& config_json,
                                  std::span<const AttentionSite> sites,
                                  std::span<const float> gates);

}  // namespace headwise
