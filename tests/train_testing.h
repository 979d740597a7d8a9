// What the tests of training share: golden batches, and the models that they are for.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "golden/golden_tensors.h"
#include "headwise/core/random.h"
#include "headwise/model/config.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

/// 60 short texts of any tokens but the first three.
inline TokenBatch random_texts(int64_t vocabulary, uint64_t stream) {
  Random random(5, stream);
  TokenBatch batch;
  for (int64_t b = 0; b < 60; ++b) {
    std::vector<int32_t> ids(5 + random.below(8));
    for (int32_t& id : ids) {
      id = static_cast<int32_t>(3 + random.below(static_cast<uint32_t>(vocabulary - 3)));
    }
    batch.add(ids);
  }
  return batch;
}

/// A file of tests/golden/gradients.
class GoldenGradients : public GoldenTensors {
 public:
  explicit GoldenGradients(const std::string& name)
      : GoldenTensors(golden_folder() / "gradients" / (name + ".safetensors")) {}

  TrainingBatch batch(const std::string& labels = "labels") const {
    TrainingBatch batch;
    add_texts(batch.source, "ids", "lengths", "type_ids");
    if (has("decoder_ids")) add_texts(batch.target, "decoder_ids", "decoder_lengths", "");
    if (has(labels)) {
      for (const int64_t label : integers(labels)) {
        batch.labels.push_back(label < 0 ? kIgnoreIndex
                                         : static_cast<int32_t>(label));  // files have -1
      }
    }
    if (has("scores")) batch.scores = floats("scores");
    return batch;
  }

  /// The names of the rows of "gradients".
  std::vector<std::string> names() const {
    std::istringstream lines(files_.metadata().at("names"));
    std::vector<std::string> names;
    for (std::string line; std::getline(lines, line);) names.push_back(line);
    return names;
  }

 private:
  void add_texts(TokenBatch& batch, const std::string& ids, const std::string& lengths,
                 const std::string& types) const {
    const std::vector<int64_t> all = integers(ids);
    const std::vector<int64_t> kinds = has(types) ? integers(types) : std::vector<int64_t>();
    int64_t at = 0;
    for (const int64_t length : integers(lengths)) {
      const std::vector<int32_t> text(all.begin() + at, all.begin() + at + length);
      std::vector<int32_t> text_kinds;
      if (!kinds.empty()) text_kinds.assign(kinds.begin() + at, kinds.begin() + at + length);
      batch.add(text, text_kinds);
      at += length;
    }
  }
};

/// The folders that have golden gradients.
inline std::vector<std::string> models_with_gradients() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder() / "gradients")) {
    const std::filesystem::path& file = entry.path();
    if (file.extension() == ".safetensors" && !file.stem().has_extension()) {
      names.push_back(file.stem().string());
    }
  }
  std::ranges::sort(names);
  return names;
}

/// To be trained for what it was saved for.
inline TrainableModel load_for_its_task(const std::filesystem::path& folder) {
  const ModelConfig config = read_config(folder);
  return TrainableModel::load(folder, {.task = config.task, .regression = config.regression});
}

}  // namespace headwise
