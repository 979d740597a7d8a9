// Recovery: models that were disturbed come back to what they said, with labels and without.
#include "headwise/train/fine_tune.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/observe/evaluation.h"
#include "io/io_testing.h"
#include "train_testing.h"

namespace headwise {
namespace {

Examples examples_for(const Model& model) {
  return model.config().encoder_decoder()
             ? unlabelled(random_texts(43, 0), random_texts(43, 1)).examples
             : unlabelled(random_texts(43, 0)).examples;
}

/// Every weight is up to a tenth of its tensor's mean size away from where it was.
void disturb(TrainableModel& model) {
  Random random(9, 0);
  for (Parameter& parameter : model.parameters()) {
    double size = 0;
    for (const float x : parameter.values) size += std::abs(x);
    const auto most = static_cast<float>(0.1 * size / std::ssize(parameter.values));
    for (float& x : parameter.values) x += most * (2 * random.uniform() - 1);
  }
}

class Distill : public testing::TestWithParam<std::string> {};

TEST_P(Distill, BringsADisturbedModelBack) {
  const Model teacher = load(golden_model(GetParam()));
  TrainableModel student = load_for_its_task(golden_model(GetParam()));
  const Examples examples = examples_for(teacher);
  EXPECT_LT(hidden_error(teacher, examples, student), 1e-9);

  disturb(student);
  const double before = hidden_error(teacher, examples, student);
  int64_t steps = 0;
  FineTuneOptions options{.epochs = 10, .tokens_per_batch = 100, .optimizer = {.rate = 1e-3}};
  options.progress = [&](int64_t done, int64_t all, double error) {
    EXPECT_EQ(done, ++steps);
    EXPECT_LE(done, all);
    EXPECT_GE(error, 0);
  };
  distill(teacher, examples, options, student);
  EXPECT_GT(before, 1e-3);
  EXPECT_LT(hidden_error(teacher, examples, student), before / 3);
  EXPECT_GE(steps, 50);
}

INSTANTIATE_TEST_SUITE_P(Models, Distill, testing::Values("bert", "gpt2", "llama", "marian"),
                         [](const auto& info) { return info.param; });

TEST_P(Distill, LabelsDoSoToo) {
  const Model teacher = load(golden_model(GetParam()));
  TrainableModel model = load_for_its_task(golden_model(GetParam()));
  Examples examples = examples_for(teacher);
  TokenBatch& scored =
      teacher.config().encoder_decoder() ? examples.all.target : examples.all.source;
  for (const int32_t id : scored.ids) examples.all.labels.push_back(id);  // to say what is read
  const auto loss = [&](TrainableModel& of) {
    const Loss all = of.evaluate(examples.all);
    return all.nll / static_cast<double>(all.scored);
  };
  const double before = loss(model);
  FineTuneOptions options{.epochs = 10, .tokens_per_batch = 100, .optimizer = {.rate = 3e-3}};
  fine_tune(examples, options, model);
  EXPECT_LT(loss(model), before - 0.5);

  TrainableModel smooth = load_for_its_task(golden_model(GetParam()));
  options.label_smoothing = 0.5;
  fine_tune(examples, options, smooth);
  EXPECT_LT(loss(smooth), before);
  EXPECT_GT(loss(smooth), loss(model)) << "less sure of itself";
}

TEST(FineTune, LeavesHeadsWithGateZeroAlone) {
  TrainableModel model = load_for_its_task(golden_model("gpt2"));
  Examples examples = unlabelled(random_texts(43, 0)).examples;
  examples.all.labels = examples.all.source.ids;
  const AttentionSite& site = model.attentions()[1];
  const auto changes = [&](const FineTuneOptions& options) {
    const auto found = std::ranges::find(model.tensors(), "transformer.h.1.attn.c_proj.weight",
                                         &StoredTensor::name);
    const View<float, 2> rows = found->parts[0].values;  // [heads * value_dim, C]
    std::vector<float> before;
    for (size_t h = 0; h < site.heads.size(); ++h) before.push_back(rows(h * site.value_dim, 0));
    fine_tune(examples, options, model);
    std::vector<bool> changed;
    for (size_t h = 0; h < site.heads.size(); ++h) {
      changed.push_back(rows(h * site.value_dim, 0) != before[h]);
    }
    return changed;
  };
  FineTuneOptions options{.tokens_per_batch = 200, .optimizer = {.rate = 1e-3, .decay = 0}};
  options.gates.assign(model.heads(), 1.f);
  options.gates[site.first] = 0;
  std::vector<bool> wanted(site.heads.size(), true);
  wanted[0] = false;
  EXPECT_EQ(changes(options), wanted);
}

TEST(FineTune, DropsHeads) {
  Examples examples = unlabelled(random_texts(43, 0)).examples;
  examples.all.labels = examples.all.source.ids;
  const auto loss_with = [&](float head_dropout) {
    TrainableModel model = load_for_its_task(golden_model("gpt2"));
    fine_tune(examples,
              {.tokens_per_batch = 200, .optimizer = {.rate = 1e-3}, .head_dropout = head_dropout},
              model);
    return model.evaluate(examples.all).nll;
  };
  EXPECT_EQ(loss_with(0), loss_with(0));
  EXPECT_NE(loss_with(0.5), loss_with(0));
}

TEST(DistillErrors, RefusesModelsOfAnotherWidth) {
  const Model teacher = load(golden_model("gpt2"));
  std::string config = contents_of(golden_model("gpt2") / "config.json");
  const std::string width = "\"n_embd\": 32";
  config.replace(config.find(width), width.size(), "\"n_embd\": 64");
  TrainableModel student = TrainableModel::create(config, {});
  EXPECT_THROW(distill(teacher, examples_for(teacher), {}, student), Error);
}

}  // namespace
}  // namespace headwise
