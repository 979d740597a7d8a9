// Loads a pruned folder for training, trains it, and replaces the tensors of its files.
#include "headwise/prune/recover.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/io/tensor_file.h"
#include "train/stored_tensors.h"

namespace headwise {
namespace {

/// Labels are learned by what the folder was saved for; hidden states are those below any output.
TrainableModel load_for(const std::filesystem::path& folder, LossTask task,
                        const LoadOptions& load) {
  const ModelConfig config = read_config(folder, load.config);
  const bool pairs = task == LossTask::similarity;
  return TrainableModel::load(
      folder,
      {.task = pairs ? Task::hidden : config.task, .regression = !pairs && config.regression},
      load);
}

/// The name that tensors of old checkpoints have today.
std::string name_today(std::string name) {
  for (const auto& [then, now] : {std::pair{"LayerNorm.gamma", "LayerNorm.weight"},
                                  std::pair{"LayerNorm.beta", "LayerNorm.bias"}}) {
    const size_t at = name.rfind(then);
    if (at != std::string::npos) return name.replace(at, std::string_view(then).size(), now);
  }
  return name;
}

/// The tensors of a folder and of the model that it is trained as.
class TrainedFolder {
 public:
  /// Throws Error if something is trained that the folder has no place for.
  TrainedFolder(const TrainableModel& model, const std::filesystem::path& folder)
      : files_(TensorFiles::open(folder)) {
    std::map<std::string, const StoredTensor*> left;
    for (const StoredTensor& tensor : model.tensors()) left[tensor.name] = &tensor;
    for (const TensorInfo& tensor : files_.tensors()) {
      const auto found = left.find(name_today(tensor.name));
      if (found == left.end()) continue;
      trained_[tensor.name] = found->second;
      left.erase(found);
    }
    if (!left.empty()) {
      throw Error({.what = "the folder cannot be trained: it has not all tensors of its model",
                   .where = folder.string(),
                   .expected = fmt::format("a tensor {}", left.begin()->first)});
    }
    for (const TensorInfo& tensor : files_.tensors()) add_copy(tensor);
  }

  /// Shards are replaced one after the other.
  void write() const {
    std::map<int32_t, std::vector<TensorToWrite>> by_file;
    std::vector<std::vector<std::byte>> contents;
    contents.reserve(trained_.size());
    for (const TensorInfo& tensor : files_.tensors()) {
      TensorToWrite out{
          .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = tensor.bytes};
      if (const auto found = trained_.find(tensor.name); found != trained_.end()) {
        out.bytes = contents.emplace_back(bytes_of(*found->second));
      }
      by_file[tensor.file].push_back(std::move(out));
    }
    for (const auto& [file, tensors] : by_file) {
      write_tensors(files_.files()[file], tensors, files_.metadata());
    }
  }

 private:
  /// A matrix that is tied to another one may be stored twice, and must stay its copy.
  void add_copy(const TensorInfo& tensor) {
    if (trained_.contains(tensor.name) || tensor.shape.size() < 2) return;
    for (const auto& [name, stored] : trained_) {
      const TensorInfo& other = *files_.find(name);
      if (other.dtype == tensor.dtype && other.shape == tensor.shape &&
          std::ranges::equal(other.bytes, tensor.bytes)) {
        trained_[tensor.name] = stored;
        return;
      }
    }
  }

  TensorFiles files_;
  std::map<std::string, const StoredTensor*> trained_;  // by the names of the files
};

void check_scores(const EvaluationSet& set) {
  for (const float score : set.examples.all.scores) {
    if (score >= -1 && score <= 1) continue;
    throw Error({.what = "the score of a pair is no cosine",
                 .got = fmt::format("{}", score),
                 .expected = "a number from -1 to 1"});
  }
}

}  // namespace

void recover(const std::filesystem::path& folder, const Model& teacher, const EvaluationSet& set,
             const FineTuneOptions& options, const LoadOptions& load) {
  check_scores(set);
  TrainableModel model = load_for(folder, set.task, load);
  const TrainedFolder trained(model, folder);
  if (set.task == LossTask::fidelity) {
    distill(teacher, set.examples, options, model);
  } else {
    fine_tune(set.examples, options, model);
  }
  trained.write();
}

}  // namespace headwise
