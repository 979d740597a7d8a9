// Trainings within trials.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiment/experiment_kind.h"
#include "headwise/train/trainer.h"

namespace headwise {

/// Trains as the settings say (docs/train.md) into a folder below that of the trial; files of
/// "data" are those of the context unless their paths are absolute. A training that was stopped
/// goes on.
TrainSummary train_in_trial(nlohmann::json settings, const std::filesystem::path& folder,
                            TrialContext& context);

}  // namespace headwise
