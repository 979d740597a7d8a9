// Models that begin at random: their numbers, their seeds, heads that start equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "headwise/kernels/adamw.h"
#include "headwise/model/model.h"
#include "io/io_testing.h"
#include "model/stored_tensors.h"
#include "train_testing.h"

namespace headwise {
namespace {

std::string config_of(const std::string& name) {
  return contents_of(golden_model(name) / "config.json");
}

bool is_norm(const std::string& name) {
  return name.find("norm") != std::string::npos || name.find("Norm") != std::string::npos ||
         name.find("ln_") != std::string::npos;
}

/// The standard deviation of T5's weights, which depends on their inputs.
double t5_deviation(const std::string& name, const ModelConfig& config) {
  const auto C = static_cast<double>(config.width),
             D = static_cast<double>(config.encoder.head_dim);
  if (name.ends_with(".q.weight")) return 1 / std::sqrt(C * D);
  if (name.ends_with(".o.weight")) {
    return 1 / std::sqrt(static_cast<double>(config.encoder.heads) * D);
  }
  if (name.ends_with(".wo.weight")) {
    return 1 / std::sqrt(static_cast<double>(config.encoder.intermediate));
  }
  return name == "shared.weight" || name == "lm_head.weight" ? 1 : 1 / std::sqrt(C);
}

class TrainCreate : public testing::TestWithParam<std::string> {};

TEST_P(TrainCreate, BeginsAsTransformersDoes) {
  const TrainableModel model = TrainableModel::create(config_of(GetParam()), {.seed = 9});
  const ModelConfig& config = model.config();
  for (const StoredTensor& tensor : model.tensors()) {
    const std::vector<float> values = gather(tensor, Which::values);
    if (is_norm(tensor.name) && tensor.name.ends_with(".weight")) {
      EXPECT_TRUE(std::ranges::all_of(values, [](float x) { return x == 1; })) << tensor.name;
    } else if (tensor.name.ends_with("bias")) {
      EXPECT_TRUE(std::ranges::all_of(values, [](float x) { return x == 0; })) << tensor.name;
    } else {
      double deviation = 0.02;
      if (config.model_type == "t5") deviation = t5_deviation(tensor.name, config);
      if (tensor.name.ends_with("c_proj.weight")) {
        deviation /= std::sqrt(2. * static_cast<double>(config.decoder.layers()));
      }
      double sum = 0, squares = 0, n = 0;
      for (const float x : values) {
        sum += x;
        squares += double{x} * double{x};
        n += x != 0;  // the row of padding is 0
      }
      // Five standard deviations of the estimates.
      EXPECT_NEAR(sum / n, 0, 5 * deviation / std::sqrt(n)) << tensor.name;
      EXPECT_NEAR(std::sqrt(squares / n), deviation, 5 * deviation / std::sqrt(2 * n))
          << tensor.name;
    }
  }
}

TEST_P(TrainCreate, FollowsTheSeed) {
  const auto numbers = [&](uint64_t seed) {
    const TrainableModel model = TrainableModel::create(config_of(GetParam()), {.seed = seed});
    std::map<std::string, std::vector<float>> all;
    for (const StoredTensor& tensor : model.tensors()) {
      all[tensor.name] = gather(tensor, Which::values);
    }
    return all;
  };
  const auto first = numbers(1), again = numbers(1), other = numbers(2);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
  // Tensors of one model do not share their numbers.
  std::set<float> seen;
  for (const auto& [name, values] : first) {
    const float number = values[values.size() / 2];
    if (number == 0 || number == 1) continue;
    EXPECT_TRUE(seen.insert(number).second) << name;
  }
}

TEST_P(TrainCreate, IsSavedAsAFolderThatRuns) {
  const TemporaryFolder folder;
  TrainableModel model = TrainableModel::create(config_of(GetParam()), {.seed = 9});
  model.save(folder.path());
  const Model saved = load(folder.path());
  EXPECT_EQ(saved.config().architecture, model.config().architecture);
  const TrainableModel again = load_for_its_task(folder.path());
  ASSERT_EQ(again.tensors().size(), model.tensors().size());
  for (size_t i = 0; i < again.tensors().size(); ++i) {
    EXPECT_EQ(again.tensors()[i].name, model.tensors()[i].name);
    EXPECT_EQ(gather(again.tensors()[i], Which::values), gather(model.tensors()[i], Which::values));
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainCreate,
                         testing::Values("bert", "bert_sequence", "roberta", "distilbert",
                                         "electra", "mpnet", "gpt2", "gpt_neox", "llama", "mistral",
                                         "qwen2", "qwen3", "smollm3", "marian", "marian_apart",
                                         "t5", "t5_gated"),
                         [](const auto& info) { return std::string(info.param); });

/// How far heads are from the first of their attention, relative to it.
double spread_of_heads(const TrainableModel& model) {
  double largest = 0;
  for (const StoredTensor& tensor : model.tensors()) {
    if (!tensor.name.ends_with("query.weight")) continue;
    const std::vector<float> values = gather(tensor, Which::values);
    const size_t head = values.size() / model.attentions()[0].heads.size();
    double squares = 0, differences = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      squares += std::pow(values[i % head], 2);
      differences += std::pow(double{values[i]} - double{values[i % head]}, 2);
    }
    largest = std::max(largest, std::sqrt(differences / squares));
  }
  return largest;
}

TEST(TrainCreate, HeadsThatStartEqualStayEqual) {
  TrainableModel model = TrainableModel::create(config_of("bert"), {.seed = 9, .same_heads = true});
  EXPECT_EQ(spread_of_heads(model), 0);
  const TrainingBatch batch = GoldenGradients("bert").batch();
  std::vector<std::vector<float>> m, v;
  for (const Parameter& parameter : model.parameters()) {
    m.emplace_back(parameter.values.size());
    v.emplace_back(parameter.values.size());
  }
  const std::vector<float> before = gather(model.tensors()[10], Which::values);
  for (int64_t step = 1; step <= 5; ++step) {
    model.train(batch, {});
    for (size_t p = 0; p < m.size(); ++p) {
      adamw(model.parameters()[p].values, model.parameters()[p].gradient, m[p], v[p],
            {.rate = 1e-2f, .step = step});
    }
  }
  EXPECT_NE(gather(model.tensors()[10], Which::values), before);
  EXPECT_EQ(spread_of_heads(model), 0);
  EXPECT_GT(spread_of_heads(TrainableModel::create(config_of("bert"), {.seed = 9})), 0.5);
}

}  // namespace
}  // namespace headwise
