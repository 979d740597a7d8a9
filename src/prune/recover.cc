// Loads a pruned folder for training, trains it, and replaces the tensors of its files.
#include "headwise/prune/recover.h"

#include <fmt/format.h>

#include <map>
#include <string_view>
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

void write_back(const TrainableModel& model, const std::filesystem::path& folder) {
  std::map<std::string_view, const StoredTensor*> trained;
  for (const StoredTensor& tensor : model.tensors()) trained[tensor.name] = &tensor;
  const TensorFiles files = TensorFiles::open(folder);
  std::map<int32_t, std::vector<TensorToWrite>> by_file;
  std::vector<std::vector<std::byte>> contents;
  contents.reserve(trained.size());
  for (const TensorInfo& tensor : files.tensors()) {
    TensorToWrite out{
        .name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = tensor.bytes};
    if (const auto found = trained.find(tensor.name); found != trained.end()) {
      out.bytes = contents.emplace_back(bytes_of(*found->second));
      trained.erase(found);
    }
    by_file[tensor.file].push_back(std::move(out));
  }
  if (!trained.empty()) {
    throw Error({.what = "the folder has not all that was trained",
                 .where = folder.string(),
                 .expected = fmt::format("a tensor {}", trained.begin()->first)});
  }
  for (const auto& [file, tensors] : by_file) {
    write_tensors(files.files()[file], tensors, files.metadata());
  }
}

}  // namespace

void recover(const std::filesystem::path& folder, const Model& teacher, const EvaluationSet& set,
             const FineTuneOptions& options, const LoadOptions& load) {
  TrainableModel model = load_for(folder, set.task, load);
  if (set.task == LossTask::fidelity) {
    distill(teacher, set.examples, options, model);
  } else {
    fine_tune(set.examples, options, model);
  }
  write_back(model, folder);
}

}  // namespace headwise
