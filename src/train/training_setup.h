// What a training begins with: the tokenizer, the model and the examples that settings name.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "headwise/text/tokenizer.h"
#include "headwise/train/examples.h"
#include "headwise/train/settings.h"
#include "headwise/train/trainable_model.h"
#include "train/checkpoint.h"

namespace headwise {

struct TrainingData {
  Examples train{}, validation{}, test{};  // the last two may be empty
};

struct TrainingSetup {
  Tokenizer tokenizer;
  TrainableModel model;
  TrainingData data{};
  TrainIdentity identity{};
  std::filesystem::path source{};  // the folder of a loaded model
};

/// What the training of these settings is known by; `folder` has the tokenizer of a new model.
TrainIdentity identify(const TrainSettings& settings, const std::filesystem::path& folder);

/// The tokenizer of a new model is trained on the data and written into `folder`, unless a
/// checkpoint there says that this was done. `check` is called now and then, and may throw to stop.
TrainingSetup set_up(const TrainSettings& settings, const std::filesystem::path& folder,
                     const std::function<void()>& check);

/// Writes what belongs to the model beside its config and weights: for a loaded one its tokenizer.
void write_beside(const TrainSettings& settings, const TrainingSetup& setup,
                  const std::filesystem::path& folder);

}  // namespace headwise
