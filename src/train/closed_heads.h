// A trained model without the heads that its gates have closed.
#pragma once

#include <span>
#include <string>

#include "headwise/model/model.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

/// config.json with the heads whose gate is 0 among its "pruned_heads". `gates` as in PassOptions.
std::string config_without_closed(const std::string& config_json,
                                  std::span<const AttentionSite> sites,
                                  std::span<const float> gates);

/// Copies the tensors that both models have in the same shape.
void copy_alike(std::span<const StoredTensor> from, std::span<const StoredTensor> to);

}  // namespace headwise
