// A model's folder whose weights are trained, and written back in the types that they had.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "headwise/io/tensor_file.h"
#include "headwise/observe/evaluation.h"
#include "headwise/train/fine_tune.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

class TrainedFolder {
 public:
  /// For what the labels of the set are, or for hidden states, which are those below any output.
  /// Throws Error if something is trained that the folder has no place for, and for scores that
  /// cannot be learned. The set must outlive it.
  TrainedFolder(const std::filesystem::path& folder, const EvaluationSet& set,
                const LoadOptions& load);

  TrainableModel& model() { return model_; }

  /// From the labels of the set; of fidelity, which has none, from the hidden states of `teacher`.
  void learn(const Model& teacher, const FineTuneOptions& options);

  /// Tensors that training does not know stay as they are. Shards are replaced one after the other.
  void write() const;

 private:
  void add_copy(const TensorInfo& tensor);

  const EvaluationSet& set_;
  TrainableModel model_;
  TensorFiles files_;
  std::map<std::string, const StoredTensor*> trained_;  // by the names of the files
};

}  // namespace headwise
