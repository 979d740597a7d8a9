// Gradients for gates against differences of losses, and the way back from pooled embeddings: every
// architecture, every task.
#include "observe/gate_gradients.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/model/model.h"
#include "observe/loss_sweep.h"
#include "texts_testing.h"

namespace headwise {
namespace {

const std::vector<int64_t> kTextLengths = {5, 2, 9, 3, 4, 7};

EvaluationSet examples_of(LossTask task, const ModelConfig& config) {
  const TokenBatch texts = texts_of(config.vocabulary, kTextLengths, 1);
  const TokenBatch targets =
      texts_of(std::max<int64_t>(10, config.decoder_vocabulary), {3, 7, 1, 2, 6, 4}, 50);
  EvaluationSet set{.task = task};
  TrainingBatch& all = set.examples.all;
  all.source = texts;
  switch (task) {
    case LossTask::lm:
      return next_tokens(texts);
    case LossTask::mlm: {
      Masking masking{.mask = 3};
      return hidden_tokens(texts, masking);
    }
    case LossTask::classify:
      for (int32_t b = 0; b < texts.sequences(); ++b) {
        all.labels.push_back(b % static_cast<int32_t>(config.labels.size()));
      }
      break;
    case LossTask::translate:
      all.target = targets;
      all.labels = targets.ids;
      std::ranges::rotate(all.labels, all.labels.begin() + 1);
      break;
    case LossTask::similarity:
      set.examples.texts_each = 2;
      all.scores = {0, 1, 2};
      break;
    case LossTask::fidelity:
      if (config.encoder_decoder()) all.target = targets;
      break;
  }
  return set;
}

struct GradientCase {
  std::string model;
  LossTask task;
};

std::vector<GradientCase> gradient_cases() {
  std::vector<GradientCase> all;
  for (const char* name : {"bert", "roberta", "distilbert", "electra", "mpnet", "bert_pruned"}) {
    all.push_back({name, LossTask::mlm});
  }
  for (const char* name : {"gpt2", "gpt_neox", "llama", "qwen3", "llama_routed", "gpt2_mixed"}) {
    all.push_back({name, LossTask::lm});
  }
  for (const char* name : {"bert_sequence", "llama_sequence"}) {
    all.push_back({name, LossTask::classify});
  }
  for (const char* name : {"marian", "t5", "marian_mixed"}) {
    all.push_back({name, LossTask::translate});
  }
  for (const char* name :
       {"sentence_mean", "sentence_cls", "sentence_lasttoken", "sentence_several", "sentence_dense",
        "sentence_weightedmean", "bert", "gpt2", "bert_question", "electra_discriminator"}) {
    all.push_back({name, LossTask::similarity});
    all.push_back({name, LossTask::fidelity});
  }
  all.push_back({"marian", LossTask::fidelity});
  all.push_back({"t5", LossTask::fidelity});
  return all;
}

class GradientsOfGates : public testing::TestWithParam<GradientCase> {
 protected:
  GradientsOfGates()
      : model_(load(golden_model(GetParam().model))),
        pooling_(SentencePooling::find_or_mean(golden_model(GetParam().model))),
        set_(examples_of(GetParam().task, model_.config())) {}

  /// Values of examples with gate `head` at g.
  std::vector<double> values(int64_t head, float g) {
    std::vector<float> gates(model_.heads(), 1.f);
    gates[head] = g;
    LossSweep sweep(model_, pooling_, set_, {.gates = gates});
    std::vector<int64_t> all(set_.size());
    for (size_t x = 0; x < all.size(); ++x) all[x] = static_cast<int64_t>(x);
    return sweep.run({}, all).base;
  }

  Model model_;
  SentencePooling pooling_;
  EvaluationSet set_;
};

/// Steps of this size change a loss by its slope and a cube, and float32 adds 2e-7 of the loss to
/// each side.
constexpr float kStep = 0.02f;
/// Where rows choose heads, a step must be so small that no row changes its choice.
constexpr float kSmallStep = 0.001f;

TEST_P(GradientsOfGates, AreTheSlopesOfLosses) {
  if (set_.task == LossTask::fidelity) return;
  const GateGradients got = gate_gradients(model_, pooling_, set_, {.batch_rows = 20});
  ASSERT_EQ(std::ssize(got.scores), model_.heads());
  EXPECT_EQ(got.examples, set_.size());
  LossSweep sweep(model_, pooling_, set_, {});
  const std::span<const int64_t> tokens = sweep.scorer().tokens();
  const std::string& name = GetParam().model;
  const bool routed = name.ends_with("_routed") || name.ends_with("_mixed");
  const float step = routed ? kSmallStep : kStep;
  for (int64_t h = 0; h < model_.heads(); ++h) {
    const std::vector<double> above = values(h, 1 + step), below = values(h, 1 - step);
    double mean = 0, largest = 0;
    for (size_t x = 0; x < above.size(); ++x) {
      mean += std::abs(above[x] - below[x]) / (2 * step * static_cast<double>(tokens[x]));
      largest = std::max(largest, std::abs(above[x]));
    }
    mean /= static_cast<double>(above.size());
    EXPECT_NEAR(got.scores[h], mean, 2e-3 * mean + 1e-6 * largest / step) << "head " << h;
  }
}

/// ½ |∂û/∂g|² of every example, by differences.
TEST_P(GradientsOfGates, OfFidelityAreTheSpeedOfThePooledOutput) {
  if (set_.task != LossTask::fidelity) return;
  const GateGradients got = gate_gradients(model_, pooling_, set_, {.seed = 3});
  const TrainingBatch& all = set_.examples.all;
  const auto units = [&](int64_t head, float g) {
    std::vector<float> gates(model_.heads(), 1.f);
    gates[head] = g;
    const ForwardOptions options{.gates = {gates.data(), {1, model_.heads()}}};
    const Activations hidden = all.target.sequences() > 0
                                   ? model_.forward(all.source, all.target, options)
                                   : model_.forward(all.source, options);
    Activations e =
        pooling_.embed(hidden.rows, (all.target.sequences() > 0 ? all.target : all.source).offsets);
    for (int64_t b = 0; b < e.rows.extent(0); ++b) {
      double squares = 0;
      for (int64_t c = 0; c < e.rows.extent(1); ++c) squares += double{e.rows(b, c)} * e.rows(b, c);
      for (int64_t c = 0; c < e.rows.extent(1); ++c) {
        e.rows(b, c) = static_cast<float>(e.rows(b, c) / std::sqrt(squares));
      }
    }
    return e;
  };
  // The estimate of one head from 8 x 6 projections has a relative deviation of about √(2 / 48), or
  // 0.2, and more if few examples count; the sum over heads is closer.
  double sum = 0, expected_sum = 0;
  for (int64_t h = 0; h < model_.heads(); ++h) {
    const Activations above = units(h, 1 + kStep), below = units(h, 1 - kStep);
    double expected = 0;
    for (int64_t b = 0; b < above.rows.extent(0); ++b) {
      for (int64_t c = 0; c < above.rows.extent(1); ++c) {
        const double slope = (double{above.rows(b, c)} - below.rows(b, c)) / (2 * kStep);
        expected += slope * slope / 2 / static_cast<double>(set_.size());
      }
    }
    EXPECT_GT(got.scores[h], expected * 0.2 - 1e-12) << "head " << h;
    EXPECT_LT(got.scores[h], expected * 2.6 + 1e-12) << "head " << h;
    sum += got.scores[h];
    expected_sum += expected;
  }
  EXPECT_NEAR(sum, expected_sum, 0.35 * expected_sum);
}

TEST_P(GradientsOfGates, DoNotDependOnBatchesOrThreads) {
  const int before = threads();
  set_threads(1);
  const GateGradients one = gate_gradients(model_, pooling_, set_, {.batch_rows = 1});
  set_threads(3);
  const GateGradients three = gate_gradients(model_, pooling_, set_, {.batch_rows = 1});
  EXPECT_EQ(one.scores, three.scores);
  const GateGradients all = gate_gradients(model_, pooling_, set_, {});
  for (size_t h = 0; h < one.scores.size(); ++h) {
    EXPECT_NEAR(one.scores[h], all.scores[h], 1e-4 * one.scores[h] + 1e-7);
  }
  set_threads(before);
}

INSTANTIATE_TEST_SUITE_P(All, GradientsOfGates, testing::ValuesIn(gradient_cases()),
                         [](const auto& info) {
                           return info.param.model + "_" + std::string(to_string(info.param.task));
                         });

class PoolingBackward : public testing::TestWithParam<std::string> {};

TEST_P(PoolingBackward, IsTheSlopeOfEmbeddings) {
  const SentencePooling pooling = *SentencePooling::find(golden_model(GetParam()));
  const int64_t C = load(golden_model(GetParam())).config().width;
  const std::vector<int64_t> offsets = {0, 4, 5, 11};
  Activations hidden(11, C), dhidden(11, C);
  Random random(1);
  for (float& x : hidden.buffer.span()) x = random.normal();
  Activations weights = pooling.embed(hidden.rows, offsets);
  for (float& w : weights.buffer.span()) w = random.normal();
  pooling.backward(hidden.rows, offsets, weights.rows, dhidden.rows);
  const auto weighted = [&] {
    const Activations e = pooling.embed(hidden.rows, offsets);
    double sum = 0;
    for (int64_t i = 0; i < e.buffer.size(); ++i) sum += double{e.buffer[i]} * weights.buffer[i];
    return sum;
  };
  for (int64_t at = 0; at < hidden.buffer.size(); at += 7) {
    const float before = hidden.buffer[at], step = 1e-3f;
    hidden.buffer[at] = before + step;
    const double above = weighted();
    hidden.buffer[at] = before - step;
    const double below = weighted();
    hidden.buffer[at] = before;
    // Sums of E numbers that float32 rounds.
    EXPECT_NEAR(dhidden.buffer[at], (above - below) / (2 * step), 3e-3) << at;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PoolingBackward,
                         testing::Values("sentence_mean", "sentence_cls", "sentence_lasttoken",
                                         "sentence_max", "sentence_mean_sqrt_len",
                                         "sentence_weightedmean", "sentence_several",
                                         "sentence_dense", "sentence_mpnet_dense"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace headwise
