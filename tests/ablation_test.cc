// Losses of examples without each head, from a sweep, against plain passes with gates and against
// the definitions: every architecture, every task.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/model/summary.h"
#include "observe/loss_sweep.h"
#include "observe/pass_work.h"
#include "plan/model_cost.h"
#include "texts_testing.h"

namespace headwise {
namespace {

/// What float32 may make of a hidden state, relative to the largest; losses are a few times that.
constexpr double kAblationTolerance = 4e-5;

const std::vector<int64_t> kLengths = {5, 2, 9, 3, 4, 7};

struct Case {
  std::string model;
  LossTask task;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char* name : {"bert", "roberta", "distilbert", "electra", "mpnet", "bert_pruned"}) {
    all.push_back({name, LossTask::mlm});
  }
  for (const char* name :
       {"gpt2", "gpt_neox", "gpt_neox_sequential", "llama", "mistral", "qwen2", "qwen3", "smollm3",
        "llama_fixed", "llama_routed", "gpt2_mixed", "llama_pruned", "llama_rope_dynamic"}) {
    all.push_back({name, LossTask::lm});
  }
  for (const char* name : {"bert_sequence", "llama_sequence", "gpt2_sequence", "mpnet_sequence"}) {
    all.push_back({name, LossTask::classify});
  }
  for (const char* name : {"marian", "t5", "t5_gated", "marian_mixed", "marian_pruned"}) {
    all.push_back({name, LossTask::translate});
  }
  for (const char* name : {"sentence_mean", "sentence_cls", "sentence_lasttoken", "sentence_max",
                           "sentence_several", "sentence_dense", "bert", "gpt2"}) {
    all.push_back({name, LossTask::fidelity});
    all.push_back({name, LossTask::similarity});
  }
  all.push_back({"marian", LossTask::fidelity});
  return all;
}

class Ablations : public testing::TestWithParam<Case> {
 protected:
  Ablations()
      : model_(load(golden_model(GetParam().model))),
        pooling_(SentencePooling::find_or_mean(golden_model(GetParam().model))) {
    const int64_t V = model_.config().vocabulary;
    const TokenBatch texts = texts_of(V, kLengths, 1);
    set_.task = GetParam().task;
    TrainingBatch& all = set_.examples.all;
    switch (set_.task) {
      case LossTask::lm:
        set_ = next_tokens(texts);
        break;
      case LossTask::mlm: {
        Masking masking{.mask = 3};
        masking.is_special.resize(V);
        masking.is_special[texts.ids[0]] = true;
        set_ = hidden_tokens(texts, masking);
        break;
      }
      case LossTask::classify:
        all.source = texts;
        for (int64_t b = 0; b < texts.sequences(); ++b) {
          all.labels.push_back(static_cast<int32_t>(b % model_.output_width()));
        }
        break;
      case LossTask::translate:
        all.source = texts;
        all.target = texts_of(model_.config().decoder_vocabulary, {3, 7, 1, 2, 6, 4}, 50);
        all.labels = all.target.ids;
        std::ranges::rotate(all.labels, all.labels.begin() + 1);
        break;
      case LossTask::similarity:
        all.source = texts;
        set_.examples.texts_each = 2;
        all.scores = {0.2f, 5.f, 3.f};
        break;
      case LossTask::fidelity:
        set_ = unlabelled(texts);
        if (model_.config().encoder_decoder()) {
          set_.examples.all.target = texts_of(model_.config().decoder_vocabulary, kLengths, 50);
        }
        break;
    }
  }

  Activations hidden(const ForwardOptions& options) const {
    const TrainingBatch& all = set_.examples.all;
    return all.target.sequences() > 0 ? model_.forward(all.source, all.target, options)
                                      : model_.forward(all.source, options);
  }

  /// The plain way: all hidden states, all logits, in double.
  std::vector<double> expected(const ForwardOptions& options, const ForwardOptions& of_all) const {
    const TrainingBatch& all = set_.examples.all;
    const TokenBatch& last = all.target.sequences() > 0 ? all.target : all.source;
    const Activations states = hidden(options);
    std::vector<double> values(set_.size());
    if (set_.task == LossTask::similarity || set_.task == LossTask::fidelity) {
      const Activations e = pooling_.embed(states.rows, last.offsets);
      const Activations r = pooling_.embed(hidden(of_all).rows, last.offsets);
      for (int64_t x = 0; x < set_.size(); ++x) {
        values[x] = set_.task == LossTask::similarity ? cosine(e.rows, 2 * x, e.rows, 2 * x + 1)
                                                      : 1 - cosine(e.rows, x, r.rows, x);
      }
      return values;
    }
    if (set_.task == LossTask::classify) {
      const Activations logits =
          model_.output(gather(states.rows, model_.output_rows(last.offsets)).rows);
      for (int64_t x = 0; x < set_.size(); ++x) values[x] = nll(logits.rows, x, all.labels[x]);
      return values;
    }
    const Activations logits = model_.output(states.rows);
    for (int64_t x = 0; x < set_.size(); ++x) {
      for (int64_t row = last.offsets[x]; row < last.offsets[x + 1]; ++row) {
        if (all.labels[row] != kIgnoreIndex) values[x] += nll(logits.rows, row, all.labels[row]);
      }
    }
    return values;
  }

  static double cosine(View<const float, 2> a, int64_t i, View<const float, 2> b, int64_t j) {
    double aa = 0, bb = 0, ab = 0;
    for (int64_t c = 0; c < a.extent(1); ++c) {
      aa += double{a(i, c)} * a(i, c);
      bb += double{b(j, c)} * b(j, c);
      ab += double{a(i, c)} * b(j, c);
    }
    return ab / std::sqrt(aa * bb);
  }

  static double nll(View<const float, 2> logits, int64_t row, int32_t target) {
    double most = -INFINITY, sum = 0;
    for (int64_t v = 0; v < logits.extent(1); ++v) most = std::max<double>(most, logits(row, v));
    for (int64_t v = 0; v < logits.extent(1); ++v) sum += std::exp(logits(row, v) - most);
    return most + std::log(sum) - logits(row, target);
  }

  std::vector<int64_t> all_examples() const {
    std::vector<int64_t> all(set_.size());
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void expect_near(std::span<const double> got, std::span<const double> want,
                   const std::string& what) const {
    ASSERT_EQ(got.size(), want.size());
    for (size_t x = 0; x < got.size(); ++x) {
      EXPECT_NEAR(got[x], want[x], kAblationTolerance * (1 + std::abs(want[x])))
          << what << " " << x;
    }
  }

  Model model_;
  SentencePooling pooling_;
  EvaluationSet set_;
};

TEST_P(Ablations, EqualPassesWithGates) {
  std::vector<Ablation> ablations;
  for (int64_t h = 0; h < model_.heads(); ++h) ablations.push_back({.heads = {h}});
  ablations.push_back({});
  LossSweep sweep(model_, pooling_, set_, {.batch_rows = 14, .rows_at_once = 50});
  const SweepValues values = sweep.run(ablations, all_examples());
  std::vector<float> gates(model_.heads(), 1.f);
  const ForwardOptions options{.gates = {gates.data(), {1, model_.heads()}}};
  const std::vector<double> base = expected({}, {});
  expect_near(values.base, base, "base");
  expect_near(values.ablated.back(), base, "of no head");
  for (int64_t h = 0; h < model_.heads(); ++h) {
    gates[h] = 0;
    expect_near(values.ablated[h], expected(options, {}), "head " + std::to_string(h));
    gates[h] = 1;
  }
}

/// Puts the means of heads in place.
class Means : public ForwardObserver {
 public:
  explicit Means(int64_t head) : head_(head) {}
  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
            View<float, 3> z, View<const float, 2>) override {
    const int64_t h = head_ - site.first;
    if (h < 0 || h >= z.extent(1)) return;
    if (sums_.empty()) {
      sums_.resize(z.extent(2));
      for (int64_t t = 0; t < z.extent(0); ++t) {
        for (int64_t c = 0; c < z.extent(2); ++c) sums_[c] += double{z(t, h, c)} / z.extent(0);
      }
      return;
    }
    for (int64_t t = 0; t < z.extent(0); ++t) {
      for (int64_t c = 0; c < z.extent(2); ++c) z(t, h, c) = static_cast<float>(sums_[c]);
    }
  }

 private:
  int64_t head_;
  std::vector<double> sums_;
};

TEST_P(Ablations, MeansEqualPassesWithMeansInPlace) {
  if (GetParam().model == "llama_rope_dynamic") return;  // one text at a time: means are of each
  std::vector<Ablation> ablations;
  for (int64_t h = 0; h < model_.heads(); ++h) ablations.push_back({.heads = {h}, .mean = true});
  LossSweep sweep(model_, pooling_, set_, {.batch_rows = 20, .rows_at_once = 33});
  const SweepValues values = sweep.run(ablations, all_examples());
  for (int64_t h = 0; h < model_.heads(); ++h) {
    Means means(h);
    (void)hidden({.observer = &means});
    const std::vector<double> wanted = expected({.observer = &means}, {});
    expect_near(values.ablated[h], wanted, "head " + std::to_string(h));
  }
}

TEST_P(Ablations, OfAModelWithGates) {
  std::vector<float> gates(model_.heads());
  for (size_t h = 0; h < gates.size(); ++h) gates[h] = static_cast<float>(2 + h * 7 % 3) / 4;
  std::vector<float> masked = gates;
  LossSweep sweep(model_, pooling_, set_, {.gates = gates});
  const std::vector<Ablation> ablations = {{.heads = {0, model_.heads() - 1}}};
  const SweepValues values = sweep.run(ablations, all_examples());
  masked[0] = masked.back() = 0;
  expect_near(values.base, expected({.gates = {gates.data(), {1, model_.heads()}}}, {}), "base");
  expect_near(values.ablated[0], expected({.gates = {masked.data(), {1, model_.heads()}}}, {}),
              "two heads");
}

TEST_P(Ablations, MeansAreThoseOfTheModelWithoutGates) {
  if (GetParam().model == "llama_rope_dynamic") return;  // one text at a time: means are of each
  std::vector<float> gates(model_.heads());
  for (size_t h = 0; h < gates.size(); ++h) gates[h] = static_cast<float>(h * 7 % 3) / 2;
  LossSweep sweep(model_, pooling_, set_, {.gates = gates});
  const std::vector<int64_t> heads = {0, 1, model_.heads() - 1};  // gates of 0, 0.5, …
  std::vector<Ablation> ablations;
  for (const int64_t h : heads) ablations.push_back({.heads = {h}, .mean = true});
  const SweepValues values = sweep.run(ablations, all_examples());
  for (size_t a = 0; a < heads.size(); ++a) {
    Means means(heads[a]);
    (void)hidden({.observer = &means});
    const std::vector<double> wanted =
        expected({.gates = {gates.data(), {1, model_.heads()}}, .observer = &means}, {});
    expect_near(values.ablated[a], wanted, "head " + std::to_string(heads[a]));
  }
}

TEST_P(Ablations, SomeExamplesInAnyBatches) {
  std::vector<Ablation> ablations = {{.heads = {1}}};
  LossSweep whole(model_, pooling_, set_, {}), parts(model_, pooling_, set_, {.batch_rows = 1});
  const SweepValues all = whole.run(ablations, all_examples());
  const std::vector<int64_t> some = {2, 0};
  const SweepValues few = parts.run(ablations, some);
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_NEAR(few.base[i], all.base[some[i]], kAblationTolerance * (1 + std::abs(few.base[i])));
    EXPECT_NEAR(few.ablated[0][i], all.ablated[0][some[i]],
                kAblationTolerance * (1 + std::abs(few.base[i])));
  }
}

/// The unchanged model is not run again, but as far as an ablation starts.
TEST_P(Ablations, GiveTheSameInALaterRun) {
  const std::vector<Ablation> early = {{.heads = {0}}}, late = {{.heads = {model_.heads() - 1}}},
                              both = {{.heads = {0}}, {.heads = {model_.heads() - 1}}, {}};
  LossSweep fresh(model_, pooling_, set_, {}), again(model_, pooling_, set_, {});
  const SweepValues expected = fresh.run(both, all_examples());
  const double whole = again.passes({}, all_examples());
  EXPECT_NEAR(whole, 1, 1e-9);
  EXPECT_GT(again.passes(early, all_examples()), 1);
  (void)again.run({}, all_examples());
  EXPECT_EQ(again.passes({}, all_examples()), 0);
  EXPECT_NEAR(again.passes(early, all_examples()), 1, 1e-9);
  const SweepValues values = again.run(both, all_examples());
  expect_near(values.base, expected.base, "base");
  for (size_t a = 0; a < both.size(); ++a) {
    expect_near(values.ablated[a], expected.ablated[a], "ablation " + std::to_string(a));
  }
  EXPECT_EQ(values.labels, expected.labels);
  expect_near(again.run(late, all_examples()).ablated[0], expected.ablated[1], "late");
}

TEST_P(Ablations, SampledPositionsAreThoseOfAll) {
  if (!scores_tokens(set_.task)) return;
  EvaluationSet sample = set_;
  sample_positions(sample, 0.3, 5);
  LossSweep sweep(model_, pooling_, sample, {});
  const std::vector<Ablation> ablations = {{.heads = {0}}, {.heads = {model_.heads() - 1}}};
  const SweepValues values = sweep.run(ablations, all_examples());
  std::swap(sample, set_);
  std::vector<float> gates(model_.heads(), 1.f);
  gates[0] = 0;
  expect_near(values.base, expected({}, {}), "base");
  expect_near(values.ablated[0], expected({.gates = {gates.data(), {1, model_.heads()}}}, {}),
              "L0");
  std::swap(gates[0], gates.back());
  expect_near(values.ablated[1], expected({.gates = {gates.data(), {1, model_.heads()}}}, {}),
              "last");
}

TEST_P(Ablations, ThreadsDoNotChangeABit) {
  const int before = threads();
  const std::vector<Ablation> ablations = {{.heads = {0}}, {.heads = {1, 2}, .mean = true}};
  SweepValues one;
  for (const int count : {1, 2, 3}) {
    set_threads(count);
    LossSweep sweep(model_, pooling_, set_, {});
    SweepValues values = sweep.run(ablations, all_examples());
    if (count == 1) one = values;
    EXPECT_EQ(values.base, one.base);
    EXPECT_EQ(values.ablated, one.ablated);
  }
  set_threads(before);
}

TEST_P(Ablations, ProgressEndsWhereItSaidAndCanStop) {
  LossSweep sweep(model_, pooling_, set_, {.batch_rows = 10, .rows_at_once = 20});
  const std::vector<Ablation> ablations = {{.heads = {0}}, {.heads = {1}}};
  int64_t last = 0, of = -1;
  (void)sweep.run(ablations, all_examples(), [&](int64_t done, int64_t total) {
    EXPECT_GE(done, last);
    last = done;
    of = total;
  });
  EXPECT_EQ(last, of);
  EXPECT_THROW((void)sweep.run(ablations, all_examples(),
                               [](int64_t, int64_t) { throw std::runtime_error("stop"); }),
               std::runtime_error);
}

INSTANTIATE_TEST_SUITE_P(All, Ablations, testing::ValuesIn(cases()), [](const auto& info) {
  return info.param.model + "_" + std::string(to_string(info.param.task));
});

/// A small Llama: 2 layers, whose output layer is a large part of a pass.
TEST(PassWorkOfALanguageModel, CountsTheOutputLayer) {
  const Model model = load(golden_model("llama"));
  const SentencePooling pooling = SentencePooling::mean();
  const TokenBatch texts = texts_of(model.config().vocabulary, {9, 9, 9, 9}, 1);
  EvaluationSet set = next_tokens(texts);
  const PassWork work(model, set);
  const ExampleScorer scorer(model, pooling, set);
  const WorkTokens tokens = scorer.work_tokens(0);
  EXPECT_EQ(tokens.source, 9);
  EXPECT_EQ(tokens.scored, 8);
  const double output = 8. * static_cast<double>(model.config().width * model.output_width());
  WorkTokens unscored = tokens;
  unscored.scored = 0;
  EXPECT_NEAR(work.whole(tokens) - work.whole(unscored), output, 1);
  // A head of the last layer leaves its feed-forward layer and the output to be computed.
  const std::vector<int64_t> last = {model.heads() - 1}, first = {0};
  const double feed_forward =
      8. * 3 * static_cast<double>(model.config().width * model.config().decoder.intermediate);
  EXPECT_NEAR(work.ablation(last, tokens), feed_forward + output, 1);
  EXPECT_GT(work.ablation(first, tokens), work.ablation(last, tokens));
  EXPECT_LT(work.ablation(first, tokens), work.whole(tokens));
  // What the text needs is what the parts are counted to cost.
  const ModelSummary summary = summarize(golden_model("llama"));
  const std::vector<uint8_t> all(model.heads(), 1);
  const double blocks = static_cast<double>(cost_of(summary, all, 9).multiply_adds);
  WorkTokens everywhere = unscored;
  everywhere.read = 9;
  EXPECT_NEAR(work.whole(everywhere), blocks, 1e-9 * blocks);
}

TEST(AblationsOfAnEncoder, LeaveTheDecoderOut) {
  const Model model = load(golden_model("t5"));
  const SentencePooling pooling = SentencePooling::mean();
  EvaluationSet set = unlabelled(texts_of(model.config().vocabulary, {4, 6}, 1));
  LossSweep alone(model, pooling, set, {});
  const int64_t last = model.heads() - 1;
  const std::vector<Ablation> ablations = {{.heads = {0}}, {.heads = {last}}};
  const std::vector<int64_t> both = {0, 1};
  const SweepValues values = alone.run(ablations, both);
  EXPECT_EQ(values.base, (std::vector<double>{0, 0}));
  EXPECT_GT(values.ablated[0][0], 0);
  EXPECT_TRUE(std::isnan(values.ablated[1][0]));
  set.examples.all.target = texts_of(model.config().decoder_vocabulary, {3, 2}, 9);
  LossSweep with(model, pooling, set, {});
  EXPECT_GT(with.run(ablations, both).ablated[1][0], 0);
}

TEST(AblationsThatCannotBe, AreRefused) {
  const Model model = load(golden_model("bert"));
  const SentencePooling pooling = SentencePooling::mean();
  const TokenBatch texts = texts_of(model.config().vocabulary, {4, 6}, 1);
  const auto refuses = [&](const EvaluationSet& set) {
    EXPECT_THROW(LossSweep(model, pooling, set, {}), Error);
  };
  refuses(next_tokens(texts));
  refuses(unlabelled({}));
  EvaluationSet set = unlabelled(texts);
  set.examples.all.target = texts;
  refuses(set);
  TokenBatch empty = texts;
  empty.add({});
  refuses(unlabelled(empty));
  set = next_tokens(texts);
  set.task = LossTask::mlm;
  set.examples.all.labels[0] = static_cast<int32_t>(model.config().vocabulary);
  refuses(set);
  std::ranges::fill(set.examples.all.labels, kIgnoreIndex);
  refuses(set);
  set.examples.all.labels.pop_back();
  refuses(set);
}

}  // namespace
}  // namespace headwise
