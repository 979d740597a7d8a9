// Finds the tensors of a folder in the model that it is trained as, and replaces them.
#include "prune/trained_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/core/error.h"
#include "model/stored_tensors.h"

namespace headwise {
namespace {

void check_scores(const EvaluationSet& set) {
  for (const float score : set.examples.all.scores) {
    if (score >= -1 && score <= 1) continue;
    throw Error({.what = "the score of a pair is no cosine",
                 .got = fmt::format("{}", score),
                 .expected = "a number from -1 to 1"});
  }
}

TrainableModel load_for(const std::filesystem::path& folder, const EvaluationSet& set,
                        const LoadOptions& load) {
  check_scores(set);
  const ModelConfig config = read_config(folder, load.config);
  const bool pairs = set.task == LossTask::similarity;
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

}  // namespace

TrainedFolder::TrainedFolder(const std::filesystem::path& folder, const EvaluationSet& set,
                             const LoadOptions& load)
    : set_(set), model_(load_for(folder, set, load)), files_(TensorFiles::open(folder)) {
  std::map<std::string, const StoredTensor*> left;
  for (const StoredTensor& tensor : model_.tensors()) left[tensor.name] = &tensor;
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

/// A matrix that is tied to another one may be stored twice, and must stay its copy.
void TrainedFolder::add_copy(const TensorInfo& tensor) {
  if (trained_.contains(tensor.name) || tensor.shape.size() < 2) return;
  for (const auto& [name, stored] : trained_) {
    const TensorInfo& other = *files_.find(name);
    if (other.dtype == tensor.dtype && other.shape == tensor.shape &&
        std::ranges::equal(files_.bytes(other).span(), files_.bytes(tensor).span())) {
      trained_[tensor.name] = stored;
      return;
    }
  }
}

void TrainedFolder::learn(const Model& teacher, const FineTuneOptions& options) {
  if (set_.task == LossTask::fidelity) {
    distill(teacher, set_.examples, options, model_);
  } else {
    fine_tune(set_.examples, options, model_);
  }
}

void TrainedFolder::write() const {
  std::map<int32_t, std::vector<TensorToWrite>> by_file;
  std::vector<std::vector<std::byte>> contents;
  contents.reserve(trained_.size());
  for (const TensorInfo& tensor : files_.tensors()) {
    TensorToWrite out = files_.copy_of(tensor);
    if (const auto found = trained_.find(tensor.name); found != trained_.end()) {
      out.bytes = contents.emplace_back(bytes_of(*found->second));
      out.load = nullptr;
    }
    by_file[tensor.file].push_back(std::move(out));
  }
  for (const auto& [file, tensors] : by_file) {
    write_tensors(files_.files()[file], tensors, files_.metadata());
  }
}

}  // namespace headwise
