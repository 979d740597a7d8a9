// The table of tensors of a model: against the checkpoints that transformers wrote, and against
// what layers in training declare.
#include "model/parameter_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/core/error.h"
#include "headwise/io/tensor_file.h"
#include "headwise/train/trainable_model.h"
#include "io/io_testing.h"
#include "model/families/family.h"
#include "model/stack_layout.h"
#include "model/task_head.h"
#include "model/transformer.h"
#include "train/parameter_list.h"

namespace headwise {
namespace {

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
  bool operator==(const NamedShape&) const = default;
  friend void PrintTo(const NamedShape& tensor, std::ostream* out) {
    *out << tensor.name << ' ' << testing::PrintToString(tensor.shape);
  }
};

std::vector<NamedShape> shapes_of(const auto& tensors) {
  std::vector<NamedShape> shapes;
  for (const auto& tensor : tensors) shapes.push_back({tensor.name, tensor.shape});
  return shapes;
}

class ParameterTables : public testing::TestWithParam<std::string> {
 protected:
  ParameterTables() {
    prefix_ = find_prefix(config_, reader_);
    if (!TaskHead::was_saved(config_, prefix_, reader_)) config_.task = Task::hidden;
  }

  ParameterTable table() const { return table_of(config_, prefix_, reader_); }

  const std::filesystem::path folder_ = golden_model(GetParam());
  ModelConfig config_ = read_config(folder_);
  WeightReader reader_{TensorFiles::open(folder_), {}};
  std::string prefix_;
};

TEST_P(ParameterTables, AreThoseOfTheCheckpoint) { EXPECT_NO_THROW(reader_.expect(table())); }

TEST_P(ParameterTables, LeadFromARepeatedTensorToTheOneThatItCopies) {
  const ParameterTable all = table();
  for (const RepeatedTensor& tensor : all.repeated()) {
    EXPECT_EQ(all.find(tensor.name), nullptr) << tensor.name;
    EXPECT_EQ(all.find_or_repeated(tensor.name), all.find(tensor.of)) << tensor.name;
  }
  for (const ParameterTensor& tensor : all.tensors()) {
    EXPECT_EQ(all.find_or_repeated(tensor.name), &tensor);
  }
}

TEST_P(ParameterTables, HaveRowsForEveryHead) {
  for (const ParameterTensor& tensor : table().tensors()) {
    if (!tensor.heads) continue;
    int64_t rows = 0;
    for (const HeadRows& head : tensor.heads->rows) rows += head.width;
    EXPECT_EQ(tensor.shape[tensor.heads->axis], rows) << tensor.name;
  }
}

TEST_P(ParameterTables, AreWhatLayersInTrainingDeclare) {
  ParameterList declared([this](const std::string& name) { return reader_.has(name); });
  const Transformer layers(config_, declared, prefix_, false);
  EXPECT_EQ(shapes_of(table().tensors()), shapes_of(declared.tensors));
  const Task task = config_.task;
  const bool has_loss = task != Task::answer && task != Task::detect && !config_.multi_label &&
                        !(task == Task::hidden && config_.encoder_decoder());
  if (!has_loss || task != read_config(folder_).task) return;
  const std::string json = contents_of(folder_ / "config.json");
  const auto& prefixes = family_of(config_).names.prefixes;
  const std::string usual =
      task == Task::hidden || prefixes.empty() ? "" : std::string(prefixes.front());
  EXPECT_EQ(shapes_of(ParameterTable(config_, {.prefix = usual}).tensors()),
            shapes_of(TrainableModel::create(json, {}).tensors()));
}

INSTANTIATE_TEST_SUITE_P(Golden, ParameterTables, testing::ValuesIn(golden_model_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace headwise
