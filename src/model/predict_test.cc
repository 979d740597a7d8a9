// Predictions against plain computations from hidden states and the output layer.
#include "headwise/model/predict.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "golden/folder.h"
#include "headwise/model/generate.h"

namespace headwise {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TokenBatch two_texts() {
  TokenBatch batch;
  batch.add(std::vector<int32_t>{5, 9, 3});
  batch.add(std::vector<int32_t>{7, 4});
  return batch;
}

std::vector<float> row_of(const Activations& rows, int64_t row) {
  const float* const first = &rows.rows(row, 0);
  return {first, first + rows.rows.extent(1)};
}

/// exp(x) / Σ exp(x)
std::vector<double> softmax_of(const std::vector<float>& row) {
  std::vector<double> shares(row.begin(), row.end());
  double sum = 0;
  for (double& share : shares) sum += share = std::exp(share);
  for (double& share : shares) share /= sum;
  return shares;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}

TEST(Predict, LargestAreInOrderAndTheFirstOfEqualOnes) {
  const std::vector<float> row = {1, 3, 2, 3};
  EXPECT_THAT(largest(row, 3), ElementsAre(1, 3, 2));
  EXPECT_THAT(largest(row, 9), ElementsAre(1, 3, 2, 0));
  EXPECT_THAT(largest({}, 2), IsEmpty());
  EXPECT_THAT(largest_of_both(row, std::vector<float>{9, 3, 0, 1}, 2), ElementsAre(1, 3, 0));
}

TEST(Predict, TasksAreThoseOfTheOutputLayer) {
  ModelConfig config;
  EXPECT_THAT(run_tasks(config), ElementsAre("embed", "hidden"));
  config.task = Task::seq2seq_lm;
  EXPECT_EQ(run_tasks(config).front(), "generate");
  config.translates = true;
  EXPECT_EQ(run_tasks(config).front(), "translate");
  for (const char* const folder : {"bert", "gpt2", "marian", "bert_token", "bert_question"}) {
    const Model model = load(golden_model(folder).string());
    const std::vector<std::string_view> tasks = run_tasks(model.config());
    EXPECT_EQ(default_run_task(model), tasks.front()) << folder;
    for (const std::string_view task : tasks) {
      EXPECT_THAT(run_task_names(), testing::Contains(task));
    }
  }
}

TEST(Predict, TokenProbabilitiesAreTheSoftmaxOfTheOutput) {
  const Model model = load(golden_model("bert").string());
  const TokenBatch texts = two_texts();
  const Activations hidden = model.forward(texts);
  const std::vector<int64_t> rows = {1, 4};
  const Activations got = token_probabilities(model, hidden.rows, rows);
  const Activations logits = model.output(hidden.rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    expect_near(row_of(got, static_cast<int64_t>(i)), softmax_of(row_of(logits, rows[i])));
  }
}

TEST(Predict, TheNextTokenComesAfterTheLastOfEachText) {
  const Model model = load(golden_model("gpt2").string());
  const TokenBatch texts = two_texts();
  const Activations got = next_token_probabilities(model, texts);
  const Activations logits = model.output(model.forward(texts).rows);
  expect_near(row_of(got, 0), softmax_of(row_of(logits, 2)));
  expect_near(row_of(got, 1), softmax_of(row_of(logits, 4)));
}

TEST(Predict, TheFirstTokenOfADecoderComesAfterItsStart) {
  const Model model = load(golden_model("marian").string());
  const TokenBatch texts = two_texts();
  TokenBatch start;
  for (int i = 0; i < 2; ++i) start.add(std::vector<int32_t>{*model.config().decoder_start});
  const Activations got = next_token_probabilities(model, texts);
  const Activations logits = model.output(model.forward(texts, start).rows);
  for (int64_t b = 0; b < 2; ++b) expect_near(row_of(got, b), softmax_of(row_of(logits, b)));
}

TEST(Predict, ScoresOfLabelsFollowTheConfig) {
  const TokenBatch texts = two_texts();
  for (const char* const folder : {"bert_sequence", "bert_multi_label", "bert_regression",
                                   "bert_token", "electra_discriminator"}) {
    SCOPED_TRACE(folder);
    const Model model = load(golden_model(folder).string());
    const ModelConfig& config = model.config();
    const LabelScores got = classify(model, texts);
    const Activations hidden = model.forward(texts);
    const Activations logits = model.output(gather(hidden.rows, got.rows).rows);
    ASSERT_EQ(std::ssize(got.rows), labels_tokens(config) ? 5 : 2);
    ASSERT_EQ(got.scores.rows.extent(1), std::ssize(label_names(config)));
    for (int64_t row = 0; row < std::ssize(got.rows); ++row) {
      const std::vector<float> own = row_of(logits, row);
      std::vector<double> expected = softmax_of(own);
      if (config.regression) expected.assign(own.begin(), own.end());
      const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
      if (config.multi_label) {
        for (size_t i = 0; i < own.size(); ++i) expected[i] = sigmoid(own[i]);
      }
      if (config.task == Task::detect) expected = {1 - sigmoid(own[0]), sigmoid(own[0])};
      expect_near(row_of(got.scores, row), expected);
    }
  }
}

TEST(Predict, ChosenLabelsFollowTheConfig) {
  ModelConfig config;
  config.task = Task::classify;
  const std::vector<float> scores = {0.5f, 0.7f, 0.1f};
  EXPECT_THAT(chosen_labels(config, scores), ElementsAre(1));
  config.multi_label = true;
  EXPECT_THAT(chosen_labels(config, scores), ElementsAre(0, 1));
  config.regression = true;
  EXPECT_THAT(chosen_labels(config, scores), IsEmpty());
  config.task = Task::classify_tokens;
  EXPECT_THAT(chosen_labels(config, scores), ElementsAre(1));
}

TEST(Predict, AnAnswerEndsAtOrAfterItsBeginning) {
  // The most probable end, token 0, is before the most probable beginning, token 2.
  const std::vector<float> logits = {0, 9, 1, 0, 8, 1, 0, 5};  // [4, 2]: beginning, end
  const AnswerSpan span = find_answer({logits.data(), {4, 2}});
  EXPECT_EQ(span.first, 2);
  EXPECT_EQ(span.last, 3);
  const std::vector<double> first = softmax_of({0, 1, 8, 0}), last = softmax_of({9, 0, 1, 5});
  EXPECT_NEAR(span.score, first[2] * last[3], 1e-9);
}

TEST(Predict, AnAnswerIsInTheContextAndNotTheFirstToken) {
  const std::vector<float> logits = {9, 9, 8, 8, 1, 2, 2, 1};
  const std::vector<int8_t> sequence = {-1, 0, 1, 1};
  const AnswerSpan span = find_answer({logits.data(), {4, 2}}, sequence);
  EXPECT_EQ(span.first, 2);
  EXPECT_EQ(span.last, 2);
  // The first token keeps its share: the score is small.
  EXPECT_LT(span.score, 1e-3);
  const AnswerSpan anywhere = find_answer({logits.data(), {4, 2}});
  EXPECT_EQ(anywhere.first, 0);
}

TEST(Predict, ChangesAreMeasuredOverAllRows) {
  const std::vector<float> before = {3, 4, 0, 0}, after = {3, 4, 1, 2};
  const RowsChange change = change_of({before.data(), {2, 2}}, {after.data(), {2, 2}});
  EXPECT_DOUBLE_EQ(change.relative_norm(), std::sqrt(5. / 25));
  EXPECT_DOUBLE_EQ(change.cosine(), 25 / std::sqrt(25. * 30));
  EXPECT_EQ(change.largest, 2);
  EXPECT_EQ(change.row, 1);
  RowsChange both = change_of({before.data(), {1, 2}}, {after.data(), {1, 2}});
  EXPECT_EQ(both.relative_norm(), 0);
  both.add(change_of({before.data() + 2, {1, 2}}, {after.data() + 2, {1, 2}}));
  EXPECT_DOUBLE_EQ(both.relative_norm(), change.relative_norm());
  EXPECT_EQ(both.largest, 2);
}

}  // namespace
}  // namespace headwise
