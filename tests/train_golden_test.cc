// Losses and gradients of whole models against PyTorch, for every architecture and loss.
// tests/golden/gradients/README.md says what is compared.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headwise/kernels/adamw.h"
#include "model/stored_tensors.h"
#include "train_testing.h"

namespace headwise {
namespace {

constexpr float kSmoothing = 0.1f;
constexpr int64_t kEntries = 16;

/// The largest difference that float32 may make, relative to the norm of a gradient; and relative
/// to the norm of the whole gradient, for those that are 0 but for rounding (biases of keys).
constexpr double kTolerance = 5e-5;
constexpr double kFloor = 1e-6;

/// Norm, projection on fixed numbers, some entries: as make_gradients.py has them.
std::vector<double> digest(const std::vector<float>& gradient) {
  double squares = 0, projection = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double g = gradient[i];
    squares += g * g;
    const auto word = static_cast<uint32_t>(i * 2654435761u);
    projection += g * (static_cast<double>(word) * 0x1p-32 - 0.5);
  }
  std::vector<double> result = {std::sqrt(squares), projection};
  const auto n = static_cast<int64_t>(gradient.size());
  for (int64_t j = 0; j < kEntries; ++j) {
    result.push_back(gradient[(2 * j + 1) * n / (2 * kEntries)]);
  }
  return result;
}

class TrainGolden : public testing::TestWithParam<std::string> {};

TEST_P(TrainGolden, LossAndGradientsAreThoseOfPyTorch) {
  const GoldenGradients golden(GetParam());
  TrainableModel model = load_for_its_task(golden_model(GetParam()));
  const TrainingBatch batch = golden.batch();
  const Loss loss = model.train(batch, {.label_smoothing = kSmoothing});
  EXPECT_NEAR(loss.loss, golden.floats("loss")[0], kTolerance * golden.floats("loss")[0]);
  EXPECT_EQ(model.evaluate(batch, {.label_smoothing = kSmoothing}).loss, loss.loss);

  const std::vector<std::string> names = golden.names();
  const std::vector<float> rows = golden.floats("gradients");
  double all = 0;
  for (size_t i = 0; i < names.size(); ++i) all = std::hypot(all, rows[i * (2 + kEntries)]);
  std::map<std::string, std::vector<double>> found;
  for (const StoredTensor& tensor : model.tensors()) {
    if (!tensor.parts.empty() && tensor.parts[0].gradient.data() == nullptr) continue;
    found[tensor.name] = digest(gather(tensor, Which::gradients));
  }
  EXPECT_EQ(found.size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    ASSERT_TRUE(found.contains(names[i])) << names[i];
    const double norm = rows[i * (2 + kEntries)];
    for (int64_t j = 0; j < 2 + kEntries; ++j) {
      EXPECT_NEAR(found[names[i]][j], rows[i * (2 + kEntries) + j],
                  kTolerance * norm + kFloor * all)
          << names[i] << " " << j << ", norm " << norm;
    }
  }
}

TEST_P(TrainGolden, GradientsOfGatesAreThoseOfPyTorch) {
  const GoldenGradients golden(GetParam());
  TrainableModel model = load_for_its_task(golden_model(GetParam()));
  const std::vector<float> gates = golden.floats("gates"), expected = golden.floats("dgates");
  ASSERT_EQ(static_cast<int64_t>(gates.size()), model.heads());
  std::vector<float> dgates(gates.size(), 1.f);  // added to
  const Loss loss = model.train(golden.batch(), {.label_smoothing = kSmoothing,
                                                 .gates = {gates.data(), {1, model.heads()}},
                                                 .dgates = {dgates.data(), {1, model.heads()}}});
  EXPECT_NEAR(loss.loss, golden.floats("gated_loss")[0],
              kTolerance * golden.floats("gated_loss")[0]);
  double norm = 0;
  for (const float d : expected) norm = std::hypot(norm, d);
  for (size_t i = 0; i < gates.size(); ++i) {
    EXPECT_NEAR(dgates[i] - 1, expected[i], kTolerance * norm + 1e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainGolden, testing::ValuesIn(models_with_gradients()),
                         [](const auto& info) { return info.param; });

class StepsGolden : public testing::TestWithParam<std::string> {};

TEST_P(StepsGolden, LossesOfAdamWFollowPyTorch) {
  const GoldenGradients golden(GetParam() + ".steps");
  TrainableModel model = load_for_its_task(golden_model(GetParam()));
  const std::span<Parameter> parameters = model.parameters();
  std::vector<std::vector<float>> m, v;
  for (const Parameter& parameter : parameters) {
    m.emplace_back(parameter.values.size());
    v.emplace_back(parameter.values.size());
  }
  const std::vector<float> expected = golden.floats("losses");
  double worst = 0;
  for (int64_t step = 0; step < std::ssize(expected); ++step) {
    const TrainingBatch batch = golden.batch("labels." + std::to_string(step % 4));
    const Loss loss = model.train(batch, {.label_smoothing = kSmoothing});
    const auto scored = static_cast<double>(loss.scored);
    worst = std::max(worst, std::abs(loss.loss / scored - double{expected[step]}));
    for (size_t p = 0; p < parameters.size(); ++p) {
      adamw(parameters[p].values, parameters[p].gradient, m[p], v[p],
            {.rate = 5e-4f,
             .beta1 = 0.9f,
             .beta2 = 0.98f,
             .epsilon = 1e-8f,
             .decay = parameters[p].decays ? 0.01f : 0.f,
             .step = step + 1,
             .gradient_scale = static_cast<float>(1 / scored)});
    }
  }
  EXPECT_LT(worst, 1e-4);
  RecordProperty("worst", std::to_string(worst));
}

INSTANTIATE_TEST_SUITE_P(Models, StepsGolden, testing::Values("bert_sequence", "gpt2", "marian"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace headwise
