// The folder of a pruned model on its way to disk.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "headwise/io/json.h"
#include "headwise/model/model.h"
#include "headwise/prune/prune.h"
#include "prune/compensate.h"

namespace headwise {

/// A model and the heads that it loses.
struct Pruning {
  const Model& model;
  std::vector<float> gates{};             // [heads], 0 for those that are dropped
  std::vector<Correction> corrections{};  // per attention; empty: none
};

/// What config.json says of a pruned model.
struct PrunedConfig {
  std::string text{};
  std::optional<ModelConfig> compact{};  // none in the masked form
};

/// Throws Error if the architecture cannot have the form.
PrunedConfig pruned_config(const Pruning& pruning, PruneForm form);
void write_pruned(const Pruning& pruning, PruneForm form, const std::filesystem::path& to);

}  // namespace headwise
