// A model before and after pruning, side by side.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "headwise/model/summary.h"
#include "headwise/observe/evaluation.h"
#include "headwise/observe/evidence.h"
#include "headwise/prune/prune.h"

namespace headwise {

/// A model before or after heads were removed.
struct ModelState {
  int64_t heads = 0;
  ModelSummary summary{};
  std::optional<LossEvidence> loss{};  // where there is something to measure it on
};

struct PruneReport {
  std::string form{}, compensate{}, out{};
  bool recovered = false;
  ModelState before{}, after{};
  PruneProof proof{};
  std::optional<LossEvidence> cut{};  // the loss before recovery
  std::vector<SpeedComparison> speed{};
};

/// The loss of a model over a set. Fidelity is to `original`; null: the model is the original.
/// `check` is called now and then, and may throw.
LossEvidence loss_of(const Model& model, const std::filesystem::path& folder,
                     const EvaluationSet& set, const Model* original,
                     const std::function<void()>& check = {});

/// The object "prune" of summary.json, and what `headwise prune --json` prints.
std::string to_json(const PruneReport& report);

}  // namespace headwise
