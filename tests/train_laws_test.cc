// What holds for every model that is trained, without asking PyTorch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/model/model.h"
#include "model/stored_tensors.h"
#include "train_testing.h"

namespace headwise {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kArchitectures = {
    "bert",       "roberta",     "xlm_roberta",  "distilbert", "electra",       "mpnet",
    "gpt2",       "gpt_neox",    "llama",        "mistral",    "qwen2",         "qwen3",
    "smollm3",    "marian",      "t5",           "t5_gated",   "bert_sequence", "sentence_mean",
    "bert_fixed", "llama_fixed", "llama_routed", "gpt2_mixed", "marian_mixed"};

using Gradients = std::map<std::string, std::vector<float>>;

Gradients gradients_of(const TrainableModel& model) {
  Gradients found;
  for (const StoredTensor& tensor : model.tensors()) {
    found[tensor.name] = gather(tensor, Which::gradients);
  }
  return found;
}

double norm(std::span<const float> numbers) {
  double squares = 0;
  for (const float x : numbers) squares += double{x} * double{x};
  return std::sqrt(squares);
}

double distance(std::span<const float> a, std::span<const float> b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(squares);
}

/// Gradients that are the same but for rounding: relative to all of them, since some are 0 in exact
/// arithmetic. Of tensors that have fewer rows without some heads, whose gradients are 0, norms are
/// compared.
void expect_near(const Gradients& got, const Gradients& expected, double tolerance = 2e-5) {
  double all = 0;
  for (const auto& [name, gradient] : expected) all = std::hypot(all, norm(gradient));
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, gradient] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    const std::vector<float>& found = got.at(name);
    const double difference = found.size() == gradient.size()
                                  ? distance(found, gradient)
                                  : std::abs(norm(found) - norm(gradient));
    EXPECT_LE(difference, tolerance * all) << name;
  }
}

class TrainLaws : public testing::TestWithParam<std::string> {
 protected:
  ~TrainLaws() override { set_threads(threads_); }
  TrainableModel load() const { return load_for_its_task(golden_model(GetParam())); }
  TrainingBatch batch() const { return GoldenGradients(GetParam()).batch(); }

 private:
  int threads_ = threads();
};

TEST_P(TrainLaws, TheSameBitsComeOutForAnyNumberOfThreads) {
  std::vector<Gradients> found;
  std::vector<double> losses;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    TrainableModel model = load();
    losses.push_back(model
                         .train(batch(), {.dropout = 0.1f,
                                          .attention_dropout = 0.1f,
                                          .head_dropout = 0.1f,
                                          .label_smoothing = 0.1f,
                                          .seed = 3})
                         .loss);
    found.push_back(gradients_of(model));
  }
  EXPECT_EQ(losses[1], losses[0]);
  EXPECT_EQ(losses[2], losses[0]);
  EXPECT_TRUE(found[1] == found[0]);
  EXPECT_TRUE(found[2] == found[0]);
}

TEST_P(TrainLaws, GradientsAreAddedAndCleared) {
  TrainableModel model = load();
  model.train(batch(), {});
  const Gradients once = gradients_of(model);
  model.train(batch(), {.gradient_scale = 2});
  const Gradients sum = gradients_of(model);
  Gradients thrice = sum;
  for (auto& [name, gradient] : thrice) {
    for (float& g : gradient) g /= 3;
  }
  expect_near(thrice, once);
  model.clear_gradients();
  for (const auto& [name, gradient] : gradients_of(model)) EXPECT_EQ(norm(gradient), 0) << name;

  // What is known to be 0 is written instead of added to, once.
  model.train(batch(), {});
  EXPECT_TRUE(gradients_of(model) == once);
  model.train(batch(), {.gradient_scale = 2});
  expect_near(gradients_of(model), sum);
}

TEST_P(TrainLaws, DropoutFollowsTheSeed) {
  TrainableModel model = load();
  const auto loss = [&](PassOptions options) { return model.evaluate(batch(), options).loss; };
  const double whole = loss({});
  for (const PassOptions& kind :
       {PassOptions{.dropout = 0.3f}, PassOptions{.attention_dropout = 0.3f},
        PassOptions{.head_dropout = 0.3f}}) {
    PassOptions other = kind;
    other.seed = 1;
    EXPECT_NE(loss(kind), whole);
    EXPECT_NE(loss(kind), loss(other));
    EXPECT_EQ(loss(kind), loss(kind));
  }
}

TEST_P(TrainLaws, NothingScoredIsNoLossAndNoGradient) {
  TrainingBatch nothing = batch();
  if (nothing.labels.empty()) return;  // every pair is scored
  std::ranges::fill(nothing.labels, kIgnoreIndex);
  TrainableModel model = load();
  const Loss loss = model.train(nothing, {});
  EXPECT_EQ(loss.loss, 0);
  EXPECT_EQ(loss.nll, 0);
  EXPECT_EQ(loss.scored, 0);
  for (const auto& [name, gradient] : gradients_of(model)) EXPECT_EQ(norm(gradient), 0) << name;
  EXPECT_EQ(model.train({}, {}).scored, 0);
}

/// The rows after every layer.
class Reached : public ForwardObserver {
 public:
  void on_resid_post(Side side, int64_t layer, View<const float, 2> rows) override {
    std::vector<float>& kept = values[{side, layer}];
    kept.assign(rows.data(), rows.data() + rows.extent(0) * rows.extent(1));
  }
  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&, View<float, 3>,
            View<const float, 2>) override {
    sites.insert(site.name);
  }
  std::map<std::pair<Side, int64_t>, std::vector<float>> values;
  std::set<std::string> sites;
};

TEST_P(TrainLaws, HiddenStatesAreThoseOfTheModelThatRuns) {
  Reached trained, run;
  TrainableModel model = load();
  model.evaluate(batch(), {.observer = &trained});
  const Model whole = headwise::load(golden_model(GetParam()));
  const TrainingBatch texts = batch();
  if (whole.config().encoder_decoder()) {
    whole.forward(texts.source, texts.target, {.observer = &run});
  } else {
    whole.forward(texts.source, {.observer = &run});
  }
  ASSERT_EQ(trained.values.size(), run.values.size());
  for (const auto& [at, rows] : run.values) {
    EXPECT_LE(distance(trained.values.at(at), rows), 2e-5 * norm(rows)) << at.second;
  }
  EXPECT_EQ(trained.sites.size(), model.attentions().size());
}

TEST_P(TrainLaws, RowsThatNoLossLooksAtChangeNothing) {
  TrainableModel model = load();
  TrainingBatch some = batch();
  if (some.labels.size() > static_cast<size_t>(some.source.sequences())) {  // of tokens
    for (size_t i = 0; i < some.labels.size(); i += 3) some.labels[i] = kIgnoreIndex;
  }
  PassOptions options{.dropout = 0.2f, .attention_dropout = 0.1f, .seed = 3};
  const double loss = model.train(some, options).loss;
  const Gradients expected = gradients_of(model);

  /// For one that wants hidden states, all rows are computed.
  class Wanting : public Reached {
   public:
    explicit Wanting(bool hidden) : hidden_(hidden) {}
    bool wants_hidden() const override { return hidden_; }

   private:
    bool hidden_;
  };
  Wanting all(true), none(false);
  for (Wanting* observer : {&all, &none}) {
    model.clear_gradients();
    options.observer = observer;
    EXPECT_EQ(model.train(some, options).loss, loss);
    expect_near(gradients_of(model), expected);
  }
  EXPECT_EQ(all.values.size(), none.values.size() + 1);  // the last layer's
  EXPECT_EQ(all.sites, none.sites);
}

TEST_P(TrainLaws, GradientsOfHiddenStatesAddUp) {
  TrainableModel model = load();
  const auto gradients = [&](const std::vector<float>& factors) {
    model.clear_gradients();
    size_t at = 0;
    model.train_hidden(batch(), {}, [&](auto hidden, auto dhidden) {
      if (at == factors.size()) return false;
      for (int64_t t = 0; t < hidden.extent(0); ++t) {
        for (int64_t c = 0; c < hidden.extent(1); ++c) {
          dhidden(t, c) = factors[at] * std::sin(static_cast<float>(3 * t + c));
        }
      }
      ++at;
      return true;
    });
    return gradients_of(model);
  };
  expect_near(gradients({1, 2}), gradients({3}));
}

TEST_P(TrainLaws, WhatIsFrozenGetsNoGradientAndChangesNoOther) {
  TrainableModel whole = load();
  std::vector<float> gates(whole.heads(), 0.75f), expected(gates.size());
  const auto options = [&](std::vector<float>& dgates) {
    return PassOptions{.dropout = 0.1f,
                       .gates = {gates.data(), {1, whole.heads()}},
                       .dgates = {dgates.data(), {1, whole.heads()}}};
  };
  whole.train(batch(), options(expected));
  const auto train_without = [&](const auto& frozen, bool with_gates) {
    TrainableModel model = load();
    for (Parameter& parameter : model.parameters())
      parameter.requires_grad = !frozen(parameter.name);
    std::vector<float> dgates(gates.size());
    PassOptions params = options(dgates);
    if (!with_gates) params.dgates = {};
    model.train(batch(), params);
    EXPECT_EQ(dgates == expected, with_gates);
    for (size_t i = 0; i < model.parameters().size(); ++i) {
      const Parameter &some = model.parameters()[i], &all = whole.parameters()[i];
      if (some.requires_grad) {
        EXPECT_TRUE(std::ranges::equal(some.gradient, all.gradient)) << some.name;
      } else {
        EXPECT_EQ(norm(some.gradient), 0) << some.name;
      }
    }
  };
  const auto in = [](std::string_view place) {
    return [place](const std::string& name) { return name.starts_with(place); };
  };
  for (const bool with_gates : {false, true}) {
    train_without(in(""), with_gates);  // everything
    train_without(in("embeddings"), with_gates);
    train_without(in("output"), with_gates);
    train_without(
        [](const std::string& name) {
          return name.find("L1.") == std::string::npos && !name.starts_with("output");
        },
        with_gates);
    for (const char* part : {"norm", "attention.weights", "attention.biases"}) {
      train_without(
          [part](const std::string& name) { return name.find(part) != std::string::npos; },
          with_gates);
    }
    train_without(
        [](const std::string& name) { return name.find("final_norm") == std::string::npos; },
        with_gates);
  }
}

TEST_P(TrainLaws, NormsOfHeadsAreThoseOfTheirWeights) {
  TrainableModel model = load();
  model.train(batch(), {});
  double heads = 0, weights = 0;
  for (const double head : model.head_gradient_norms()) heads += head * head;
  for (const Parameter& parameter : model.parameters()) {
    if (parameter.name.ends_with("attention.weights")) {
      weights += std::pow(norm(parameter.gradient), 2);
    }
  }
  // A key/value head counts for each head of its group.
  EXPECT_GE(heads, weights * (1 - 1e-5));
  if (model.attentions()[0].kv_heads == std::ssize(model.attentions()[0].heads)) {
    EXPECT_NEAR(heads, weights, 1e-5 * weights);
  }
}

TEST_P(TrainLaws, EveryNumberOfATensorIsAParameterOnce) {
  TrainableModel model = load();
  std::set<const float*> parameters, tensors;
  for (const Parameter& parameter : model.parameters()) {
    EXPECT_EQ(parameter.values.size(), parameter.gradient.size());
    for (const float& value : parameter.values) {
      EXPECT_TRUE(parameters.insert(&value).second) << parameter.name;
    }
  }
  for (const StoredTensor& tensor : model.tensors()) {
    for (const TensorPart& part : tensor.parts) {
      if (part.gradient.data() == nullptr) continue;
      for (int64_t i = 0; i < part.values.extent(0); ++i) {
        for (int64_t j = 0; j < part.values.extent(1); ++j) {
          EXPECT_TRUE(tensors.insert(&part.values(i, j)).second) << tensor.name;
        }
      }
    }
  }
  EXPECT_TRUE(parameters == tensors);
}

INSTANTIATE_TEST_SUITE_P(Models, TrainLaws, testing::ValuesIn(kArchitectures),
                         [](const auto& info) { return info.param; });

/// A law of pruning: heads that were cut out, and heads whose gates are 0.
class PrunedLaws : public testing::TestWithParam<std::string> {};

TEST_P(PrunedLaws, GradientsWithoutHeadsAreThoseWithClosedGates) {
  const std::filesystem::path folder = golden_model(GetParam() + "_pruned");
  TrainableModel pruned = load_for_its_task(folder);
  TrainableModel whole = load_for_its_task(golden_model(GetParam()));
  std::vector<float> gates(whole.heads());
  for (const AttentionSite& site : whole.attentions()) {
    const auto same = std::ranges::find(pruned.attentions(), site.name, &AttentionSite::name);
    for (const int32_t head : same->heads) gates[site.first + head] = 1;
  }
  const TrainingBatch batch = GoldenGradients(GetParam()).batch();
  const double expected = whole.train(batch, {.gates = {gates.data(), {1, whole.heads()}}}).loss;
  EXPECT_NEAR(pruned.train(batch, {}).loss, expected, 2e-5 * expected);
  expect_near(gradients_of(pruned), gradients_of(whole));
}

INSTANTIATE_TEST_SUITE_P(Models, PrunedLaws,
                         testing::Values("bert", "roberta", "distilbert", "electra", "mpnet",
                                         "gpt2", "gpt_neox", "llama", "mistral", "qwen2", "qwen3",
                                         "smollm3", "marian", "t5"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TrainDecay, LeavesRelativeBiasesOut) {
  for (const auto& [name, tables] : {std::pair{"t5", 2}, std::pair{"mpnet", 1}}) {
    TrainableModel model = load_for_its_task(golden_model(name));
    int found = 0;
    for (const Parameter& parameter : model.parameters()) {
      if (parameter.name.find("relative_bias") == std::string::npos) continue;
      ++found;
      EXPECT_FALSE(parameter.decays) << parameter.name;
    }
    EXPECT_EQ(found, tables) << name;
  }
}

std::string refusal(const auto& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TrainErrors, SayWhatDoesNotFit) {
  const GoldenGradients golden("bert");
  TrainableModel model = load_for_its_task(golden_model("bert"));
  const auto train = [&](const auto& change, PassOptions options = {}) {
    TrainingBatch batch = golden.batch();
    change(batch);
    return refusal([&] { model.train(batch, options); });
  };
  const auto same = [](TrainingBatch&) {};
  EXPECT_THAT(train([](auto& b) { b.labels[3] = 70; }), HasSubstr("label 3"));
  EXPECT_THAT(train([](auto& b) { b.labels[0] = -2; }), HasSubstr("-2"));
  EXPECT_THAT(train([](auto& b) { b.labels.pop_back(); }), HasSubstr("one label per token"));
  EXPECT_THAT(train([](auto& b) { b.source.ids[1] = 70; }), HasSubstr("token 1"));
  EXPECT_THAT(train([](auto& b) { b.target = b.source; }),
              HasSubstr("without encoder and decoder"));
  EXPECT_THAT(train([](auto& b) { b.source.offsets.back() -= 1; }), HasSubstr("offsets"));
  EXPECT_THAT(train(same, {.dropout = 1}), HasSubstr("dropout"));
  EXPECT_THAT(train(same, {.head_dropout = NAN}), HasSubstr("head_dropout"));
  std::vector<float> gates(model.heads(), 1), dgates(3);
  EXPECT_THAT(train(same, {.gates = {gates.data(), {1, 5}}}), HasSubstr("one per head"));
  EXPECT_THAT(
      train(same, {.gates = {gates.data(), {1, model.heads()}}, .dgates = {dgates.data(), {1, 3}}}),
      HasSubstr("gradients of gates"));
  TrainableModel pairs = load_for_its_task(golden_model("sentence_mean"));
  TrainingBatch batch = GoldenGradients("sentence_mean").batch();
  batch.scores.pop_back();
  EXPECT_THAT(refusal([&] { pairs.train(batch, {}); }), HasSubstr("pairs"));
}

TEST(TrainErrors, SayWhatCannotBeTrained) {
  const auto load = [](const char* name, Task task) {
    return refusal([&] { TrainableModel::load(golden_model(name), {.task = task}); });
  };
  EXPECT_THAT(load("t5", Task::classify), HasSubstr("cannot be trained for this task"));
  EXPECT_THAT(load("bert", Task::causal_lm), HasSubstr("cannot be trained for this task"));
  EXPECT_THAT(load("gpt2", Task::masked_lm), HasSubstr("cannot be trained for this task"));
  EXPECT_THAT(load("bert_question", Task::answer), HasSubstr("no loss"));
  EXPECT_THAT(load("marian", Task::hidden), HasSubstr("no loss"));
  EXPECT_THAT(load("sentence_dense", Task::hidden), HasSubstr("cannot be trained"));
}

}  // namespace
}  // namespace headwise
