// How much heads matter against hooks on PyTorch models: golden models of every kind, and two with
// trained weights. tests/golden/importance/README.md says what is compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "golden/golden_tensors.h"
#include "headwise/observe/importance.h"
#include "headwise/observe/observe.h"

namespace headwise {
namespace {

/// Of a loss, as the definition of these measures asks for, and as much for the rounding of its
/// sums in float32; gradients relative to the largest.
constexpr double kOfLoss = 1e-6, kRounding = 4e-6, kRelative = 1e-5, kOfGradient = 5e-5;

const std::filesystem::path kGolden = golden_folder();
const std::filesystem::path kProject = kGolden.parent_path().parent_path();

struct ImportanceCase {
  std::string model;
  LossTask task;
};

class GoldenImportance : public GoldenTensors {
 public:
  GoldenImportance(const std::string& model, LossTask task)
      : GoldenTensors(kGolden / "importance" /
                      (model + "." + std::string(to_string(task)) + ".safetensors")) {
    set_.task = task;
    TrainingBatch& all = set_.examples.all;
    add_texts("ids", "lengths", all.source);
    if (has("decoder_ids")) add_texts("decoder_ids", "decoder_lengths", all.target);
    if (has("labels")) {
      for (const int64_t label : integers("labels"))
        all.labels.push_back(label < 0 ? kIgnoreIndex
                                       : static_cast<int32_t>(label));  // files have -1
    }
    if (has("scores")) all.scores = floats("scores");
    if (task == LossTask::similarity) set_.examples.texts_each = 2;
  }
  const EvaluationSet& set() const { return set_; }

 private:
  void add_texts(const std::string& ids, const std::string& lengths, TokenBatch& to) const {
    const std::vector<int64_t> all = integers(ids);
    int64_t at = 0;
    for (const int64_t length : integers(lengths)) {
      to.add(std::vector<int32_t>(all.begin() + at, all.begin() + at + length));
      at += length;
    }
  }
  EvaluationSet set_;
};

void expect_golden(const std::filesystem::path& folder, const std::string& name, LossTask task) {
  const GoldenImportance golden(name, task);
  const Model model = load(folder);
  Evidence evidence = no_evidence(model);
  observe_importance(model, golden.set(), {}, evidence);
  const double loss = golden.floats("loss")[0];
  ASSERT_TRUE(evidence.loss);
  EXPECT_NEAR(evidence.loss->value, loss, kOfLoss * loss + kRounding);
  const std::vector<float> zero = golden.floats("zero"), mean = golden.floats("mean"),
                           gradient = golden.floats("gradient");
  ASSERT_EQ(zero.size(), evidence.heads.size());
  const float largest = *std::ranges::max_element(gradient);
  double sum = 0, expected_sum = 0;
  for (size_t h = 0; h < zero.size(); ++h) {
    const Measures& got = evidence.heads[h].measures;
    const auto near = [&](const char* measure, double expected) {
      EXPECT_NEAR(got.find(measure)->value, expected,
                  kOfLoss * loss + kRounding + kRelative * std::abs(expected))
          << evidence.heads[h].head << " " << measure;
    };
    near("ablation_zero", zero[h]);
    near("ablation_mean", mean[h]);
    sum += got.find("gradient")->value;
    expected_sum += gradient[h];
    if (task == LossTask::fidelity) continue;  // an estimate
    EXPECT_NEAR(got.find("gradient")->value, gradient[h],
                kOfGradient * largest + kRelative * gradient[h])
        << evidence.heads[h].head;
  }
  if (task == LossTask::fidelity) {
    // Of eight random projections; the sum over the heads of these small models stays within this.
    EXPECT_NEAR(sum, expected_sum, 0.4 * expected_sum);
  }
}

std::vector<ImportanceCase> importance_cases() {
  std::vector<ImportanceCase> all;
  for (const auto& entry : std::filesystem::directory_iterator(kGolden / "importance")) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string name = entry.path().stem().string();
    const size_t dot = name.find('.');
    const std::string model = name.substr(0, dot);
    if (!std::filesystem::exists(kGolden / "models" / model)) continue;  // with trained weights
    all.push_back({model, loss_task(name.substr(dot + 1))});
  }
  return all;
}

class ImportanceGolden : public testing::TestWithParam<ImportanceCase> {};

TEST_P(ImportanceGolden, EqualsHooksInPyTorch) {
  expect_golden(kGolden / "models" / GetParam().model, GetParam().model, GetParam().task);
}

INSTANTIATE_TEST_SUITE_P(All, ImportanceGolden, testing::ValuesIn(importance_cases()),
                         [](const auto& info) {
                           return info.param.model + "_" + std::string(to_string(info.param.task));
                         });

TEST(ImportanceOfTrainedWeights, Stories15m) {
  const std::filesystem::path folder = kProject / "../shared/models/stories15m";
  if (!std::filesystem::exists(folder / "config.json")) GTEST_SKIP() << folder << " is not there";
  expect_golden(folder, "stories15m", LossTask::lm);
}

TEST(ImportanceOfTrainedWeights, MiniLm) {
  const std::filesystem::path folder = kProject / "build/models/minilm";
  if (!std::filesystem::exists(folder / "config.json")) {
    GTEST_SKIP() << "MiniLM is not there; ./dev model minilm fetches it";
  }
  expect_golden(folder, "minilm", LossTask::fidelity);
}

}  // namespace
}  // namespace headwise
