// Settings of heads: fixed, routed, gated with learned gates, begun as equals.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/kernels/adamw.h"
#include "headwise/model/model.h"
#include "io/io_testing.h"
#include "model/head_tensors.h"
#include "model/stored_tensors.h"
#include "train/hard_concrete.h"
#include "train/head_log.h"
#include "train_testing.h"

namespace headwise {
namespace {

/// The largest difference that float32 may make, relative to the largest value.
constexpr double kTolerance = 2e-5;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// To look on, all heads of all rows have to be computed.
class Onlooker : public ForwardObserver {};

/// Sees how far a pass has come, and no heads.
class TestObserver : public ForwardObserver {
 public:
  explicit TestObserver(const ModelConfig& config) : config_(config) {}
  bool wants_heads() const override { return false; }
  AttentionObserver* attention_observer(const AttentionSite& site, const Attention&) override {
    EXPECT_FALSE(attention_at(config_, site).routing) << "all heads of " << site.name;
    return nullptr;
  }
  void on_resid_post(Side, int64_t, View<const float, 2>) override { ++layers; }
  int64_t layers = 0;

 private:
  const ModelConfig& config_;
};

class RoutedModels : public testing::TestWithParam<std::string> {};

TEST_P(RoutedModels, WhatIsLeftOutChangesNothing) {
  const GoldenGradients golden(GetParam());
  const Model model = load(golden_model(GetParam()));
  const TrainingBatch batch = golden.batch();
  std::vector<float> gates;
  for (int64_t h = 0; h < model.heads(); ++h) gates.push_back(static_cast<float>(h % 3) / 2);
  for (const bool gated : {false, true}) {
    ForwardOptions options;
    if (gated) options.gates = {gates.data(), {1, model.heads()}};
    const auto run = [&] {
      return model.config().encoder_decoder() ? model.forward(batch.source, batch.target, options)
                                              : model.forward(batch.source, options);
    };
    const Activations gathered = run();
    Onlooker onlooker;
    options.observer = &onlooker;
    const Activations whole = run();
    float largest = 0, error = 0;
    for (int64_t i = 0; i < whole.rows.extent(0) * whole.rows.extent(1); ++i) {
      largest = std::max(largest, std::abs(whole.rows.data()[i]));
      error = std::max(error, std::abs(whole.rows.data()[i] - gathered.rows.data()[i]));
    }
    EXPECT_LE(error, kTolerance * largest);
  }
}

TEST_P(RoutedModels, ToSeeHowFarAPassIsCostsNothing) {
  const TrainingBatch batch = GoldenGradients(GetParam()).batch();
  const Model model = load(golden_model(GetParam()));
  TestObserver test_observer(model.config());
  const auto run = [&](ForwardObserver* observer) {
    const ForwardOptions options{.observer = observer};
    return model.config().encoder_decoder() ? model.forward(batch.source, batch.target, options)
                                            : model.forward(batch.source, options);
  };
  const Activations seen = run(&test_observer), unseen = run(nullptr);
  EXPECT_GT(test_observer.layers, 0);
  EXPECT_TRUE(
      std::equal(seen.rows.data(), seen.rows.data() + seen.buffer.size(), unseen.rows.data()));
}

INSTANTIATE_TEST_SUITE_P(Models, RoutedModels,
                         testing::Values("llama_routed", "gpt2_mixed", "marian_mixed"),
                         [](const auto& info) { return info.param; });

TEST(HeadLog, FixedHeadsDoWhatTheyAreFixedTo) {
  TrainableModel model = load_for_its_task(golden_model("bert_fixed"));
  HeadLog log;
  const TrainingBatch batch = GoldenGradients("bert_fixed").batch();
  (void)model.train(batch, {.observer = &log});
  const auto heads = log.take(model);
  EXPECT_EQ(std::ssize(heads), model.heads());
  const auto of = [&](const char* head, const char* measure) {
    return heads.at(head).at(measure).get<double>();
  };
  EXPECT_EQ(of("L0.H0", "mass_previous"), 1);
  EXPECT_EQ(of("L0.H0", "rows"), batch.source.rows() - batch.source.sequences());
  EXPECT_FALSE(heads.at("L0.H0").contains("mass_self"));
  EXPECT_EQ(of("L0.H1", "mass_next"), 1);
  EXPECT_EQ(of("L0.H2", "mass_first"), 1);
  EXPECT_EQ(of("L0.H2", "entropy"), 0);
  EXPECT_NEAR(of("L1.H3", "entropy_ratio"), 1, 1e-5);
  EXPECT_EQ(of("L1.H3", "mass_window"), 1);
  EXPECT_GT(of("L0.H3", "gradient_norm"), 0);
  EXPECT_GT(of("L0.H3", "entropy"), 0);
  EXPECT_TRUE(log.take(model).empty()) << "taken once";
}

TEST(HardConcrete, GradientsAreSlopes) {
  HardConcrete gates(200);
  Random random(1);
  std::vector<double> weights;
  for (float& log_alpha : gates.parameter().values) {
    log_alpha = 3 * random.normal();
    weights.push_back(random.normal());
  }
  const std::span<float> values = gates.parameter().values;
  (void)gates.draw(7);
  for (int64_t i = 0; i < gates.size(); ++i) gates.dgates()(0, i) = static_cast<float>(weights[i]);
  gates.backward(0.5);
  const std::vector<float> gradient(gates.parameter().gradient.begin(),
                                    gates.parameter().gradient.end());
  const float step = 0x1p-8f;
  std::set<int> kinds;
  for (int64_t i = 0; i < gates.size(); ++i) {
    const float at = values[i];
    const auto loss = [&](float moved) {
      values[i] = moved;
      return weights[i] * gates.draw(7)(0, i) + 0.5 * gates.penalty();
    };
    const double up = loss(at + step), down = loss(at - step);
    const float gate = gates.draw(7)(0, i);
    values[i] = at;
    const float here = gates.draw(7)(0, i);
    if ((gate == 0) != (here == 0) || (gate == 1) != (here == 1)) continue;  // a corner between
    kinds.insert(here == 0 ? 0 : here == 1 ? 1 : 2);
    // The next term of the series, and the rounding of gates to float.
    ASSERT_NEAR(gradient[i], (up - down) / (2 * step), 2e-4) << i;
  }
  EXPECT_EQ(kinds.size(), 3u) << "closed, open, and between";
}

TEST(HardConcrete, IsOpenAsOftenAsThePenaltySays) {
  HardConcrete gates(1);
  for (const float log_alpha : {-3.f, -1.f, 0.f, 2.f}) {
    gates.parameter().values[0] = log_alpha;
    constexpr int kDraws = 4000;
    int open = 0;
    for (int seed = 0; seed < kDraws; ++seed) {
      const float gate = gates.draw(seed)(0, 0);
      ASSERT_TRUE(gate >= 0 && gate <= 1);
      open += gate > 0;
    }
    // Four standard deviations of a share.
    EXPECT_NEAR(open / static_cast<double>(kDraws), gates.penalty(), 4 * 0.5 / std::sqrt(kDraws));
    EXPECT_NEAR(gates.gates()[0], std::clamp(sigmoid(log_alpha) * 1.2 - 0.1, 0., 1.), 1e-6);
  }
  EXPECT_EQ(gates.draw(3)(0, 0), gates.draw(3)(0, 0));
}

Parameter& log_alpha_of(TrainableModel& model) { return model.parameters().back(); }

class GatedModels : public testing::TestWithParam<std::string> {};

TEST_P(GatedModels, GradientsOfLearnedGatesAreSlopes) {
  TrainableModel model = load_for_its_task(golden_model(GetParam()));
  model.learn_gates({.l0 = 0.1});
  const TrainingBatch batch = GoldenGradients(GetParam()).batch();
  Parameter& parameter = log_alpha_of(model);
  std::ranges::fill(parameter.values, 0.3f);
  const PassOptions options{.seed = 3};
  model.clear_gradients();
  const double at = model.train(batch, options).loss;
  const std::vector<float> gradient(parameter.gradient.begin(), parameter.gradient.end());
  TrainableModel frozen = load_for_its_task(golden_model(GetParam()));
  frozen.learn_gates({.l0 = 0.1, .train_weights = false});
  std::ranges::fill(log_alpha_of(frozen).values, 0.3f);
  (void)frozen.train(batch, options);
  EXPECT_EQ(std::vector(log_alpha_of(frozen).gradient.begin(), log_alpha_of(frozen).gradient.end()),
            gradient);
  Random random(5);
  std::vector<float> direction;
  double expected = 0;
  for (const float g : gradient) {
    direction.push_back(random.normal());
    expected += double{g} * double{direction.back()};
  }
  constexpr float kStep = 0x1p-9f;
  const auto loss = [&](float step) {
    for (size_t i = 0; i < direction.size(); ++i) {
      parameter.values[i] = 0.3f + step * direction[i];
    }
    return model.train(batch, options).loss;
  };
  const double slope = (loss(kStep) - loss(-kStep)) / (2 * kStep);
  const double wide = (loss(2 * kStep) - loss(-2 * kStep)) / (4 * kStep);
  EXPECT_NEAR(slope, expected, 1e-6 * at / kStep + std::abs(wide - slope));
  EXPECT_LT(1e-6 * at / kStep + std::abs(wide - slope), 0.05 * at + 0.05 * std::abs(expected));
}

/// Closed heads are gone from what is saved, other gates are in the output projections.
TEST_P(GatedModels, SavesWhatItComputes) {
  TrainableModel model = load_for_its_task(golden_model(GetParam()));
  model.learn_gates({.l0 = 0.1});
  Parameter& parameter = log_alpha_of(model);
  int64_t masked = 0;
  for (size_t h = 0; h < parameter.values.size(); ++h) {
    parameter.values[h] = h % 3 == 0 ? -4.f : h % 3 == 1 ? 0.4f : 4.f;
    masked += h % 3 == 0;
  }
  const TrainingBatch batch = GoldenGradients(GetParam()).batch();
  const Loss gated = model.evaluate(batch);
  const TemporaryFolder folder;
  model.save(folder.path());

  TrainableModel saved = load_for_its_task(folder.path());
  EXPECT_EQ(saved.heads(), model.heads() - masked);
  const nlohmann::json config = nlohmann::json::parse(saved.config_json());
  EXPECT_TRUE(config.contains("pruned_heads"));
  // transformers finds the class that loads it, also after it was trained further.
  const bool known = !config["model_type"].get<std::string>().starts_with("headwise_");
  const TemporaryFolder further;
  saved.save(further.path());
  for (const auto& path : {folder.path(), further.path()}) {
    EXPECT_EQ(std::filesystem::exists(path / "modeling_headwise.py"), known);
  }
  EXPECT_EQ(config.contains("auto_map"), known);
  const Loss again = saved.evaluate(batch);
  EXPECT_NEAR(again.nll, gated.nll, kTolerance * gated.nll);
  EXPECT_EQ(load(folder.path()).heads(), saved.heads());
}

TEST_P(GatedModels, ThreadsDoNotChangeABit) {
  const TrainingBatch batch = GoldenGradients(GetParam()).batch();
  const auto gradients = [&](int count) {
    set_threads(count);
    TrainableModel model = load_for_its_task(golden_model(GetParam()));
    model.learn_gates({.l0 = 0.1});
    (void)model.train(batch, {.attention_dropout = 0.1f, .head_dropout = 0.1f, .seed = 2});
    std::vector<float> all;
    for (const Parameter& parameter : model.parameters()) {
      all.insert(all.end(), parameter.gradient.begin(), parameter.gradient.end());
    }
    return all;
  };
  const int before = threads();
  const std::vector<float> one = gradients(1);
  for (const int count : {2, 3}) {
    const std::vector<float> more = gradients(count);
    EXPECT_EQ(std::memcmp(one.data(), more.data(), one.size() * sizeof(float)), 0) << count;
  }
  set_threads(before);
}

INSTANTIATE_TEST_SUITE_P(Models, GatedModels,
                         testing::Values("bert", "gpt2", "gpt_neox", "llama", "marian", "t5",
                                         "mpnet", "qwen3", "bert_fixed", "llama_fixed",
                                         "llama_routed", "gpt2_mixed", "marian_mixed"),
                         [](const auto& info) { return info.param; });

TEST(LearnedGates, WeightsCanBeFrozen) {
  TrainableModel model = load_for_its_task(golden_model("bert"));
  EXPECT_TRUE(model.learned_gates().empty());
  model.learn_gates({.l0 = 0.1, .train_weights = false});
  for (const Parameter& parameter : model.parameters()) {
    EXPECT_EQ(parameter.requires_grad, parameter.name == "gates.log_alpha") << parameter.name;
  }
  EXPECT_EQ(std::ssize(model.learned_gates()), model.heads());
  EXPECT_THROW(model.learn_gates({}), Error);
  const std::vector<float> gates(model.heads(), 1.f);
  EXPECT_THROW(model.evaluate(GoldenGradients("bert").batch(),
                              {.gates = {gates.data(), {1, model.heads()}}}),
               Error);
}

/// Steps of AdamW on one batch, without dropout.
void train(TrainableModel& model, const TrainingBatch& batch, int steps) {
  std::vector<std::vector<float>> m, v;
  for (const Parameter& parameter : model.parameters()) {
    m.emplace_back(parameter.values.size());
    v.emplace_back(parameter.values.size());
  }
  for (int step = 1; step <= steps; ++step) {
    (void)model.train(batch, {});
    for (size_t p = 0; p < model.parameters().size(); ++p) {
      const Parameter& parameter = model.parameters()[p];
      adamw(parameter.values, parameter.gradient, m[p], v[p],
            {.rate = 1e-2,
             .beta1 = 0.9,
             .beta2 = 0.98,
             .epsilon = 1e-9,
             .step = step,
             .gradient_scale = 1});
    }
  }
}

/// The largest difference of the queries of a layer's heads from those of its first head.
double difference(const TrainableModel& model, const std::string& tensor, int64_t heads) {
  const auto found = std::ranges::find(model.tensors(), tensor, &StoredTensor::name);
  const std::vector<float> values = gather(*found, Which::values);
  const size_t head = values.size() / heads;
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    largest = std::max(largest, std::abs(double{values[i]} - double{values[i % head]}));
  }
  return largest;
}

TEST(EqualHeads, StayEqualInTraining) {
  const std::string config = [] {
    std::ifstream file(golden_model("bert") / "config.json");
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }();
  const TrainingBatch batch = GoldenGradients("bert").batch();
  for (const bool same : {true, false}) {
    TrainableModel model = TrainableModel::create(config, {.seed = 1, .same_heads = same});
    train(model, batch, 20);
    for (const char* which : {"query", "key", "value"}) {
      const double d = difference(
          model, std::string("bert.encoder.layer.1.attention.self.") + which + ".weight", 4);
      // Rounding is the same for all heads; without a common start they are far apart.
      if (same) {
        EXPECT_EQ(d, 0) << which;
      } else {
        EXPECT_GT(d, 0.02) << which;
      }
    }
  }
}

}  // namespace
}  // namespace headwise
