// Intervals of shares, and the best head of two halves.
#include "observe/accuracy.h"

#include <gtest/gtest.h>

#include "observe/labelled_testing.h"

namespace headwise {
namespace {

TEST(Accuracy, HasTheWilsonInterval) {
  // statsmodels: proportion_confint(right, n, method="wilson")
  const Measure most = accuracy(8, 10, 0.5);
  EXPECT_DOUBLE_EQ(most.value, 0.8);
  EXPECT_EQ(most.n, 10);
  EXPECT_EQ(most.baseline, 0.5);
  EXPECT_NEAR(most.interval->low, 0.4901624715, 1e-9);
  EXPECT_NEAR(most.interval->high, 0.9433178485, 1e-9);
  EXPECT_NEAR(accuracy(0, 20).interval->high, 0.1611251581, 1e-9);
  EXPECT_EQ(accuracy(0, 20).interval->low, 0);
  EXPECT_EQ(accuracy(20, 20).interval->high, 1);
}

TEST(Accuracy, ChoosesTheBestHeadOnOneHalfAndMeasuresItOnTheOther) {
  const Model model = load_golden_model("bert");
  Answers answers{.name = "a", .items = {4, 3}, .of_halves = {0.5, 0.25}};
  answers.right.assign(model.heads(), {1, 3});
  answers.right[5] = answers.right[7] = {3, 1};
  std::vector<uint8_t> heads(model.heads(), 1);
  const auto best = answers.best(heads, model);
  EXPECT_EQ(best->head, "L1.H1");
  EXPECT_EQ(best->chosen, accuracy(3, 4, 0.5));
  EXPECT_EQ(best->measured, accuracy(1, 3, 0.25));
  heads[5] = 0;
  EXPECT_EQ(answers.best(heads, model)->head, "L1.H3");
  EXPECT_FALSE(answers.best(std::vector<uint8_t>(model.heads()), model).has_value());
  answers.items = {1, 0};
  EXPECT_FALSE(answers.best(heads, model).has_value());
}

TEST(Accuracy, IsAskedOfHeadsThatReadTheText) {
  const Model model = load_golden_model("marian");
  const ObservedCorpus corpus;
  MetricContext context{.model = model, .corpus = corpus};
  const std::vector<uint8_t> heads = heads_within_text(context);
  for (int64_t h = 0; h < model.heads(); ++h) {
    EXPECT_EQ(heads[h] != 0, head_name(model, h).starts_with("enc")) << head_name(model, h);
  }
  context.wanted.assign(model.heads(), 0);
  context.wanted[1] = 1;
  EXPECT_EQ(heads_within_text(context), context.wanted);
}

}  // namespace
}  // namespace headwise
