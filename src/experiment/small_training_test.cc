// The tasks of small trainings are what they are said to be; every claim on them runs.
#include "experiment/small_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "headwise/core/error.h"
#include "io/io_testing.h"

namespace headwise {
namespace {

using nlohmann::json;

class Context : public TrialContext {
 public:
  const Model& model(const std::string& name) override { throw Error({.what = name}); }
  std::filesystem::path data(const std::string& file) override { return folder_.path() / file; }
  std::filesystem::path folder() override { return folder_.path(); }
  uint64_t seed() const override { return 0; }
  void progress(int64_t, int64_t) override { ++steps; }

  void write(const std::string& file, const std::string& text) { folder_.write(file, text); }
  int64_t steps = 0;

 private:
  TemporaryFolder folder_;
};

constexpr int64_t kKeys = 4, kValues = 3;

SmallTask relations(Context& context, int64_t sequences = 40) {
  return small_task("relations",
                    {{"kind", "relations"},
                     {"keys", kKeys},
                     {"values", kValues},
                     {"sequences", sequences},
                     {"validation", 30}},
                    context);
}

TEST(SmallTask, RelationsLeadToTheValuesOfTheLabel) {
  Context context;
  const SmallTask task = relations(context);
  EXPECT_EQ(task.positions, 2 * kKeys);
  EXPECT_EQ(task.vocabulary, kKeys * kValues + 81);
  const TokenBatch& texts = task.validation.all.source;
  int64_t scored = 0, apart = 0;
  for (int64_t s = 0; s < texts.sequences(); ++s) {
    std::map<int32_t, int64_t> times;
    for (int64_t row = texts.offsets[s]; row < texts.offsets[s + 1]; ++row) {
      const int32_t key = texts.ids[row] / kValues;
      const int32_t label = task.validation.all.labels[row];
      const bool second = ++times[key] == 2;
      EXPECT_LE(times[key], 2);
      EXPECT_EQ(label != kIgnoreIndex, second && row - texts.offsets[s] >= 2);
      if (label == kIgnoreIndex) {
        for (const auto& sources : task.sources) EXPECT_EQ(sources[row], -1);
        continue;
      }
      ++scored;
      if (task.sources[0][row] < 0) continue;
      ++apart;
      EXPECT_EQ(texts.ids[task.sources[0][row]] / kValues, key);
      EXPECT_EQ(task.sources[1][row], row - 1);
      EXPECT_EQ(task.sources[2][row], row - 2);
      EXPECT_EQ(task.sources[3][row], texts.offsets[s]);
      int32_t said = 0;
      for (const auto& sources : task.sources) {
        said = said * kValues + texts.ids[sources[row]] % kValues;
      }
      EXPECT_EQ(label, kKeys * kValues + said);
    }
  }
  EXPECT_GT(scored, apart);
  EXPECT_GT(apart, 30);
}

TEST(SmallTask, TextsAreFollowedByTheirNextCharacter) {
  Context context;
  context.write("text", "abcabdabcabdabcabdabcabdabca");
  json settings = {
      {"kind", "text"}, {"file", "text"}, {"length", 4}, {"sequences", 3}, {"validation", 2}};
  const SmallTask task = small_task("text", settings, context);
  EXPECT_EQ(task.vocabulary, 4);
  EXPECT_EQ(task.train.size(), 3);
  const auto& ids = task.train.all.source.ids;
  const auto& labels = task.train.all.labels;
  EXPECT_EQ(ids, (std::vector<int32_t>{0, 1, 2, 0, 1, 3, 0, 1, 2, 0, 1, 3}));
  EXPECT_EQ(labels, (std::vector<int32_t>{1, 2, 0, 1, 3, 0, 1, 2, 0, 1, 3, 0}));
  EXPECT_EQ(task.validation.all.labels.back(), 0);  // the last character

  settings["sequences"] = 30;
  EXPECT_THROW(small_task("text", settings, context), Error);
}

json shape_of(int64_t heads) {
  return {{"width", 8}, {"heads", heads}, {"layers", 2}, {"feed_forward", 16}, {"init", 0.1}};
}

TEST(SmallModel, HasTheSameParametersAndCostForAnyNumberOfHeads) {
  Context context;
  const SmallTask task = relations(context);
  TrainableModel one = TrainableModel::create(small_config(task, shape_of(1)), {.seed = 1});
  TrainableModel eight = TrainableModel::create(small_config(task, shape_of(8)), {.seed = 1});
  EXPECT_EQ(eight.heads(), 16);
  EXPECT_EQ(parameters_of(one), parameters_of(eight));
  EXPECT_EQ(multiply_adds(task, shape_of(1), 1), multiply_adds(task, shape_of(8), 8));
  for (size_t i = 0; i < one.parameters().size(); ++i) {  // and begins with the same
    EXPECT_TRUE(std::ranges::equal(one.parameters()[i].values, eight.parameters()[i].values));
  }
}

TEST(SmallModel, LearnsAndLooksAtTheTokensOfRelations) {
  Context context;
  const SmallTask task = relations(context, 4000);
  json shape = shape_of(4);
  shape.update({{"layers", 1}, {"width", 16}, {"init", 0.2}});
  TrainableModel model = TrainableModel::create(small_config(task, shape), {.seed = 2});
  const double before = validation_loss(task, model);
  const auto most = [&] {
    double most = 0;
    for (const auto& head : relation_weights(task, model)) {
      double sum = 0;
      for (const double weight : head) sum += weight;
      EXPECT_LT(sum, 1.0001);
      most = std::max(most, *std::ranges::max_element(head));
    }
    return most;
  };
  const double weight_before = most();
  fine_tune(task.train, small_training({{"rate", 1e-2}, {"batch", 128}}, 3, context), model);
  EXPECT_EQ(context.steps, 250);
  EXPECT_LT(validation_loss(task, model), before - 1);
  EXPECT_GT(most(), weight_before + 0.2);

  // Heads go in the order of what they cost, until each layer has as many as asked for.
  std::vector<float> gates(4, 1.f);
  std::vector<double> losses;
  EXPECT_EQ(remove_greedily(task, model, 20, 1, gates,
                            [&] { losses.push_back(training_loss(task, model, 20, gates)); }),
            4 + 3 + 2);
  EXPECT_EQ(std::ranges::count(gates, 1.f), 1);
  ASSERT_EQ(losses.size(), 3);
  for (size_t h = 0; h < 4; ++h) {
    std::vector<float> without(4, 1.f);
    without[h] = 0;
    EXPECT_GE(training_loss(task, model, 20, without), losses[0]);
  }
}

class SmallTrainingClaims : public testing::TestWithParam<const char*> {};

TEST_P(SmallTrainingClaims, RunQuickly) {
  TemporaryFolder folder;
  const ClaimVerdict verdict = run_experiment(GetParam(), folder.path(), {.quick = true});
  EXPECT_EQ(verdict.left, 0);
  EXPECT_FALSE(verdict.family.empty());
  EXPECT_TRUE(verdict.figure.has_value());
  EXPECT_FALSE(verdict.plot.empty());
  EXPECT_EQ(judge_experiment(folder.path()), verdict);
}

INSTANTIATE_TEST_SUITE_P(All, SmallTrainingClaims,
                         testing::Values("several-heads", "separate-softmax", "head-specialisation",
                                         "train-many-prune-few", "head-dropout"));

}  // namespace
}  // namespace headwise
