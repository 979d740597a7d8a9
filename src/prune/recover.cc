// Trains a folder, and replaces the tensors of its files.
#include "headwise/prune/recover.h"

#include "prune/trained_folder.h"

namespace headwise {

void recover(const std::filesystem::path& folder, const Model& teacher, const EvaluationSet& set,
             const FineTuneOptions& options, const LoadOptions& load) {
  TrainedFolder trained(folder, set, load);
  trained.learn(teacher, options);
  trained.write();
}

}  // namespace headwise
