// Plans by learned gates: what they close is what says nothing, within the constraints, and what is
// left says what it said.
#include "headwise/plan/gated_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/plan/follow_plan.h"
#include "headwise/prune/prune.h"
#include "io/io_testing.h"
#include "train_testing.h"

namespace headwise {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

EvaluationSet unlabelled_for(const Model& model) {
  const int64_t vocabulary = model.config().vocabulary;
  return unlabelled(random_texts(vocabulary, 0),
                    model.config().encoder_decoder() ? random_texts(vocabulary, 1) : TokenBatch());
}

/// About 200 steps.
FineTuneOptions training() {
  return {.epochs = 35, .tokens_per_batch = 100, .optimizer = {.rate = 1e-4}};
}

std::set<std::string> set_of(const std::vector<std::string>& heads) {
  return {heads.begin(), heads.end()};
}

/// A golden model in which every second head is silent.
class GatedPlans : public testing::TestWithParam<std::string> {
 protected:
  GatedPlans() {
    const Model whole = load(golden_model(GetParam()));
    for (const AttentionSite& site : whole.attentions()) {
      for (int64_t h = site.layer % 2; h < std::ssize(site.heads); h += 2) {
        silent_.push_back(site.head_name(h));
      }
    }
    prune(whole, silent_, {.form = PruneForm::masked, .out = folder_});
  }

  TemporaryFolder temporary_;
  std::vector<std::string> silent_;
  fs::path folder_ = temporary_.path() / "silent";
};

TEST_P(GatedPlans, CloseWhatSaysNothing) {
  const Model model = load(folder_);
  const EvaluationSet set = unlabelled_for(model);
  for (const bool weights : {true, false}) {
    const GatedPlan found =
        learn_plan(model, set, {.keep = 0.5, .train_weights = weights, .training = training()});
    EXPECT_EQ(found.plan.order, "gates");
    EXPECT_EQ(set_of(found.plan.drop), set_of(silent_)) << (weights ? "trained" : "frozen");
    EXPECT_EQ(std::ssize(found.plan.keep), model.heads() - std::ssize(silent_));
    EXPECT_EQ(std::ssize(found.gates), model.heads());
    EXPECT_EQ(found.plan.expected.at("heads"), std::ssize(found.plan.keep));
    EXPECT_LT(found.plan.expected.at("multiply_adds"),
              found.plan.expected.at("multiply_adds_before"));
    const fs::path pruned = temporary_.path() / (weights ? "trained" : "frozen");
    prune(found.model, found.plan, {.out = pruned});
    TrainableModel student = load_for_its_task(pruned);
    EXPECT_LT(hidden_error(model, set.examples, student), 0.05);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GatedPlans,
                         testing::Values("bert", "gpt2", "llama", "marian", "t5", "bert_half"),
                         [](const auto& info) { return info.param; });

TEST(GatedPlan, LearnsFromLabels) {
  const fs::path folder = golden_model("bert_sequence");
  const Model model = load(folder);
  EvaluationSet set{.task = LossTask::classify};
  TrainingBatch& all = set.examples.all;
  all.source = random_texts(model.config().vocabulary, 0);
  for (int64_t b = 0; b < all.source.sequences(); ++b) {
    all.labels.push_back(all.source.ids[all.source.offsets[b]] % 2);
  }
  FineTuneOptions options = training();
  options.optimizer.rate = 3e-3;
  int64_t steps = 0;
  options.progress = [&](int64_t, int64_t, double) { ++steps; };
  const double before = load_for_its_task(folder).evaluate(all).nll;
  const GatedPlan found = learn_plan(model, set, {.heads = 1, .training = options});
  EXPECT_EQ(steps, fine_tune_steps(set.examples, options));
  EXPECT_EQ(found.plan.keep.size(), 1u);
  EXPECT_LT(load_for_its_task(found.model.folder()).evaluate(all).nll, 0.8 * before);
}

TEST(GatedPlan, HonoursConstraints) {
  const Model model = load(golden_model("qwen3"));
  const EvaluationSet set = unlabelled_for(model);
  FineTuneOptions params = training();
  params.epochs = 5;
  const auto learn = [&](const GateOptions& options) {
    return learn_plan(model, set, options).plan;
  };
  const auto left_in = [&](const Plan& plan, const AttentionSite& site) {
    return std::ranges::count_if(
        plan.keep, [&](const std::string& head) { return head.starts_with(site.name + "."); });
  };
  const Plan even = learn({.heads = 5, .uniform = true, .training = params});
  for (const AttentionSite& site : model.attentions()) EXPECT_EQ(left_in(even, site), 2);
  const Plan two = learn({.heads = 4, .at_least = 2, .training = params});
  for (const AttentionSite& site : model.attentions()) EXPECT_EQ(left_in(two, site), 2);
  EXPECT_TRUE(learn({.keep = 0., .at_least = 0, .training = params}).keep.empty());
  const auto refused = [&](const GateOptions& options, const char* why) {
    try {
      (void)learn(options);
      ADD_FAILURE() << why;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(why));
    }
  };
  refused({.heads = 1, .training = params}, "2 or more");
  refused({.heads = 99, .training = params}, "0 to 8");
  refused({.training = params}, "a share of the heads, or a number");
}

/// The gradient of gates through a loss of hidden states, and what is left once they are settled.
TEST(LearnedGatesOfHiddenStates, HaveSlopesAndSettle) {
  const Model teacher = load(golden_model("bert"));
  TrainableModel model = load_for_its_task(golden_model("bert"));
  model.learn_gates({.l0 = 0.1, .train_weights = false});
  Parameter& log_alpha = model.parameters().back();
  std::ranges::fill(log_alpha.values, 0.3f);
  const TrainingBatch batch{.source = random_texts(teacher.config().vocabulary, 0)};
  const PassOptions options{.seed = 3};
  const auto squares = [&] {
    double sum = 0;
    model.train_hidden(batch, options, [&](View<const float, 2> hidden, View<float, 2> gradient) {
      if (sum > 0) return false;
      for (int64_t i = 0; i < hidden.extent(0) * hidden.extent(1); ++i) {
        const double difference = double{hidden.data()[i]} - 1;
        sum += difference * difference / 1000;
        gradient.data()[i] = static_cast<float>(2 * difference / 1000);
      }
      return true;
    });
    return sum + 0.1 * model.open_gates();
  };
  model.clear_gradients();
  const double at = squares();
  const std::vector<float> gradient(log_alpha.gradient.begin(), log_alpha.gradient.end());
  constexpr float kStep = 0x1p-7f;
  double expected = 0;
  for (const float g : gradient) expected += double{g};
  const auto moved = [&](float step) {
    std::ranges::fill(log_alpha.values, 0.3f + step);
    return squares();
  };
  const double slope = (moved(kStep) - moved(-kStep)) / (2 * kStep);
  EXPECT_NEAR(slope, expected, 1e-6 * at / kStep + 0.02 * std::abs(expected));

  std::ranges::fill(log_alpha.values, 0.3f);
  const double gated = model.evaluate(GoldenGradients("bert").batch()).nll;
  model.fold_gates();
  EXPECT_TRUE(model.learned_gates().empty());
  EXPECT_NEAR(model.evaluate(GoldenGradients("bert").batch()).nll, gated, 1e-5 * gated);
  EXPECT_THROW(model.fold_gates(), Error);
}

}  // namespace
}  // namespace headwise
