// What the optimiser changes: not what is frozen, no more than clipping allows, and again after a
// checkpoint.
#include "train/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/io_testing.h"
#include "train/checkpoint.h"

namespace headwise {
namespace {

using testing::HasSubstr;

TrainableModel small_model() {
  return TrainableModel::create(nlohmann::json{{"model_type", "gpt2"},
                                               {"architectures", {"GPT2LMHeadModel"}},
                                               {"n_embd", 8},
                                               {"n_layer", 2},
                                               {"n_head", 2},
                                               {"n_positions", 8},
                                               {"vocab_size", 11}}
                                    .dump(),
                                {.seed = 5});
}

void set_gradients(TrainableModel& model, float scale) {
  float next = 0;
  for (const Parameter& parameter : model.parameters()) {
    for (float& g : parameter.gradient) g = scale * std::sin(next += 1);
  }
}

std::vector<float> values_of(TrainableModel& model) {
  std::vector<float> all;
  for (const Parameter& p : model.parameters()) {
    all.insert(all.end(), p.values.begin(), p.values.end());
  }
  return all;
}

TEST(Optimizer, LeavesAloneWhatIsFrozen) {
  TrainableModel model = small_model();
  const std::vector<std::string> places = {"embeddings", "L1"};
  freeze(model, places);
  Optimizer optimizer(model, {.rate = 0.1});
  const std::vector<float> before = values_of(model);
  set_gradients(model, 1);
  optimizer.step(1, 1, optimizer.gradient_norm());
  size_t at = 0;
  for (const Parameter& p : model.parameters()) {
    const bool frozen = p.name.starts_with("embeddings.") || p.name.starts_with("L1.");
    EXPECT_EQ(p.requires_grad, !frozen) << p.name;
    const bool same = std::equal(p.values.begin(), p.values.end(), before.begin() + at);
    EXPECT_EQ(same, frozen) << p.name;
    at += p.values.size();
  }
}

TEST(Optimizer, RefusesPlacesThatAreNotThere) {
  TrainableModel model = small_model();
  const auto refused = [&](std::vector<std::string> places) {
    return error_of([&] { freeze(model, places); });
  };
  EXPECT_THAT(refused({"L2"}).expected, HasSubstr("L0, L1, embeddings"));
  std::vector<std::string> all;
  for (const Parameter& p : model.parameters()) all.push_back(p.name.substr(0, p.name.find('.')));
  EXPECT_THAT(refused(all).what, HasSubstr("everything is frozen"));
}

TEST(Optimizer, ClipsTheNormOfAllGradientsTogether) {
  TrainableModel clipped = small_model(), scaled = small_model();
  Optimizer clipping(clipped, {.rate = 0.01, .clip = 1}), plain(scaled, {.rate = 0.01, .clip = 0});
  set_gradients(clipped, 1);
  const double norm = clipping.gradient_norm();
  double squares = 0;
  for (const Parameter& p : clipped.parameters()) {
    for (const float g : p.gradient) squares += double{g} * g;
  }
  EXPECT_NEAR(norm, std::sqrt(squares), 1e-6 * norm);
  ASSERT_GT(norm, 2);
  clipping.step(1, 1, norm);
  set_gradients(scaled, static_cast<float>(1 / (norm + 1e-6)));
  plain.step(1, 1, 1);
  const std::vector<float> a = values_of(clipped), b = values_of(scaled);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-6);
}

TEST(Optimizer, LearnsGatesAtTheirOwnRate) {
  TrainableModel model = small_model();
  model.learn_gates({.l0 = 1, .rate = 0.5});
  Optimizer optimizer(model, {.rate = 0, .clip = 0});
  const std::vector<float> before = values_of(model);
  set_gradients(model, 1);
  optimizer.step(1, 0.5, optimizer.gradient_norm());
  const std::vector<float> after = values_of(model);
  const size_t weights = before.size() - static_cast<size_t>(model.heads());
  for (size_t i = 0; i < before.size(); ++i) {
    // The first step of AdamW is as long as the rate.
    EXPECT_NEAR(std::abs(after[i] - before[i]), i < weights ? 0 : 0.25, 1e-4) << i;
  }
}

TEST(Checkpoints, GiveBackWhatWasWritten) {
  const TemporaryFolder folder;
  const Checkpoints checkpoints(folder.path());
  EXPECT_FALSE(checkpoints.exist());
  TrainableModel model = small_model();
  Optimizer optimizer(model, {.rate = 0.1});
  set_gradients(model, 1);
  optimizer.step(1, 1, 1);
  const TrainIdentity identity{.settings = "{}", .seed = 1, .files = {{"a", "1"}}, .simd = "AVX2"};
  checkpoints.write({.step = 7, .epoch = 2, .batch = 3, .best = -0.5, .recent = {4, 6}}, identity,
                    model, optimizer);

  TrainableModel other = small_model();
  Optimizer again(other, {.rate = 0.1});
  std::optional<std::string> simd;
  TrainIdentity now = identity;
  now.simd = "SSE4";
  const TrainState state = checkpoints.read(now, other, again, simd);
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(state.batch, 3);
  EXPECT_EQ(state.best, -0.5);
  EXPECT_EQ(state.recent, (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(simd, "AVX2");
  EXPECT_EQ(values_of(other), values_of(model));
  for (TrainableModel* each : {&model, &other}) set_gradients(*each, 0.3f);
  optimizer.step(2, 1, 1);
  again.step(2, 1, 1);
  EXPECT_EQ(values_of(other), values_of(model));
  now.files["a"] = "2";
  EXPECT_THAT(error_of([&] { checkpoints.read(now, other, again, simd); }).what,
              HasSubstr("the contents of a"));
}

TEST(Checkpoints, AverageSnapshots) {
  const TemporaryFolder folder;
  const Checkpoints checkpoints(folder.path());
  TrainableModel model = small_model();
  const std::vector<float> first = values_of(model);
  checkpoints.write_snapshot(1, model);
  for (const Parameter& p : model.parameters()) {
    for (float& value : p.values) value += 2;
  }
  checkpoints.write_snapshot(2, model);
  checkpoints.write_snapshot(3, model);
  checkpoints.remove_snapshots_but({1, 2});
  EXPECT_EQ(folder.names().size(), 2u);
  checkpoints.load_mean({1, 2}, model);
  const std::vector<float> mean = values_of(model);
  for (size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(mean[i], first[i] + 1, 1e-6);
  checkpoints.load_mean({1}, model);
  EXPECT_EQ(values_of(model), first);
}

}  // namespace
}  // namespace headwise
