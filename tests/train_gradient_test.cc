// Gradients of whole models against central differences of the loss: every architecture, also with
// pruned heads, under dropout of all kinds and gates per text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/model/model.h"
#include "io/io_testing.h"
#include "model/stored_tensors.h"
#include "train_testing.h"

namespace headwise {
namespace {

/// Texts of a golden model's own, with labels or scores drawn at random.
TrainingBatch batch_of(const std::string& name, const ModelConfig& config) {
  const GoldenTensors golden(golden_model(name) / "expected.safetensors");
  Random random(11);
  TrainingBatch batch;
  const auto add = [&](TokenBatch& to, const char* ids, const char* lengths) {
    const std::vector<int64_t> all = golden.integers(ids);
    int64_t at = 0;
    for (const int64_t length : golden.integers(lengths)) {
      to.add(std::vector<int32_t>(all.begin() + at, all.begin() + at + length));
      at += length;
    }
  };
  add(batch.source, "ids", "lengths");
  if (config.encoder_decoder()) add(batch.target, "decoder_ids", "decoder_lengths");
  const int64_t V = config.encoder_decoder() ? config.decoder_vocabulary : config.vocabulary;
  const int64_t rows = config.encoder_decoder() ? batch.target.rows() : batch.source.rows();
  for (int64_t i = 0; i < rows; ++i) {
    batch.labels.push_back(
        i % 5 == 4 ? kIgnoreIndex : static_cast<int32_t>(random.below(static_cast<uint32_t>(V))));
  }
  if (config.task == Task::classify) {
    batch.labels = {0, 1, 1};
  } else if (config.task == Task::hidden) {
    batch.source.add(std::vector<int32_t>{5, 6, 7});
    batch.labels.clear();
    batch.scores = {0.25f, 0.9f};
  }
  return batch;
}

class Check {
 public:
  Check(const std::string& name, PassOptions options)
      : Check(load_for_its_task(golden_model(name)), name, options) {}
  /// `name`: whose texts.
  Check(TrainableModel model, const std::string& name, PassOptions options)
      : model_(std::move(model)), batch_(batch_of(name, model_.config())), options_(options) {
    loss_ = model_.train(batch_, options_).loss;
  }

  /// The change of the loss along a random direction of every tensor.
  void every_tensor() {
    for (const StoredTensor& tensor : model_.tensors()) {
      if (tensor.parts.empty() || tensor.parts[0].gradient.data() == nullptr) continue;
      const std::vector<float> values = gather(tensor, Which::values);
      const std::vector<float> gradient = gather(tensor, Which::gradients);
      Random random(3, values.size());
      std::vector<float> direction(values.size());
      double expected = 0;
      const std::span<float> padding = padding_of(tensor, direction);
      for (size_t i = 0; i < values.size(); ++i) {
        direction[i] = random.normal();
      }
      std::ranges::fill(padding, 0.f);
      for (size_t i = 0; i < values.size(); ++i) {
        expected += double{gradient[i]} * double{direction[i]};
      }
      const auto at = [&](double step) {
        std::vector<float> moved = values;
        for (size_t i = 0; i < moved.size(); ++i)
          moved[i] += static_cast<float>(step) * direction[i];
        scatter(moved, tensor.parts);
        return model_.evaluate(batch_, options_).loss;
      };
      expect_slope(tensor.name, expected, at);
      at(0);
    }
  }

  /// The row of the embedding that look-ups do not train, as in PyTorch, though Marian's decoder
  /// begins with it.
  std::span<float> padding_of(const StoredTensor& tensor, std::span<float> numbers) const {
    const ModelConfig& config = model_.config();
    if (config.model_type != "marian" || tensor.shape[0] != config.vocabulary) return {};
    return numbers.subspan(*config.pad * config.width, config.width);
  }

  template <class Loss>
  void expect_slope(const std::string& what, double expected, const Loss& at) const {
    constexpr double kStep = 1e-3;
    const double slope = (at(kStep) - at(-kStep)) / (2 * kStep);
    const double wide = (at(2 * kStep) - at(-2 * kStep)) / (4 * kStep);
    // Rounding of the loss, and what the next term of the series is.
    const double tolerance = 1e-6 * loss_ / kStep + std::abs(wide - slope);
    EXPECT_NEAR(slope, expected, tolerance) << what;
    // A test that allows everything is none.
    EXPECT_LT(tolerance, 0.05 * loss_ + 0.05 * std::abs(expected)) << what;
  }

  TrainableModel model_;
  TrainingBatch batch_;
  PassOptions options_;
  double loss_ = 0;
};

/// Those whose activation is smooth, and whose rows choose the same heads on both sides of a step.
const std::vector<std::string> kModels = {
    "bert",        "bert_sequence", "bert_pruned",     "roberta",      "xlm_roberta",
    "distilbert",  "electra",       "mpnet",           "mpnet_pruned", "gpt2",
    "gpt2_pruned", "gpt_neox",      "gpt_neox_pruned", "llama",        "llama_pruned",
    "mistral",     "qwen2",         "qwen3",           "qwen3_pruned", "smollm3",
    "marian",      "t5_gated",      "sentence_mean",   "bert_fixed",   "llama_fixed",
    "gpt2_mixed"};

class TrainGradient : public testing::TestWithParam<std::string> {
 protected:
  TrainGradient() { set_threads(1); }  // the models are tiny
  ~TrainGradient() override { set_threads(before_); }

 private:
  int before_ = threads();
};

TEST_P(TrainGradient, IsTheSlopeOfTheLoss) {
  Check(GetParam(), {.label_smoothing = 0.1f}).every_tensor();
}

TEST_P(TrainGradient, IsTheSlopeOfTheLossUnderDropout) {
  Check(GetParam(), {.dropout = 0.1f, .attention_dropout = 0.2f, .head_dropout = 0.2f, .seed = 5})
      .every_tensor();
}

TEST_P(TrainGradient, OfGatesOfEachTextIsTheSlopeOfTheLoss) {
  const int64_t texts = GetParam() == "sentence_mean" ? 4 : 3;
  const int64_t heads = load_for_its_task(golden_model(GetParam())).heads();
  std::vector<float> gates(texts * heads), dgates(gates.size());
  Random random(1);
  for (float& gate : gates) gate = 0.4f + random.uniform();
  Check check(GetParam(), {.dropout = 0.1f,
                           .head_dropout = 0.1f,
                           .gates = {gates.data(), {texts, heads}},
                           .dgates = {dgates.data(), {texts, heads}}});
  std::vector<float> direction(gates.size());
  double expected = 0;
  for (size_t i = 0; i < gates.size(); ++i) {
    direction[i] = random.normal();
    expected += double{dgates[i]} * double{direction[i]};
  }
  const std::vector<float> before = gates;
  check.expect_slope("gates", expected, [&](double step) {
    for (size_t i = 0; i < gates.size(); ++i) {
      gates[i] = before[i] + static_cast<float>(step) * direction[i];
    }
    return check.model_.evaluate(check.batch_, check.options_).loss;
  });
}

/// The architecture without norms, which no golden model has: as many labels as tokens.
nlohmann::json normless_config() {
  const ModelConfig bert = read_config(golden_model("bert"));
  return {{"model_type", "headwise_normless"},
          {"architectures", {"NormlessForTokenClassification"}},
          {"hidden_size", 16},
          {"vocab_size", bert.vocabulary},
          {"num_labels", bert.vocabulary},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"head_dim", 6},
          {"attention_scale", 0.5},
          {"intermediate_size", 20},
          {"hidden_act", "gelu"},
          {"initializer_range", 0.3},
          {"max_position_embeddings", bert.max_positions}};
}

/// Attentions whose heads differ in number and width, grouped ones among them.
class OwnHeadsGradient : public TrainGradient {
 protected:
  /// The golden model whose texts are taken.
  static std::string texts_of(const std::string& name) {
    return name == "normless" ? "bert" : name;
  }

  static TrainableModel create(const std::string& name) {
    if (name == "normless") return TrainableModel::create(normless_config().dump(), {.seed = 6});
    nlohmann::json config = nlohmann::json::parse(contents_of(golden_model(name) / "config.json"));
    const auto own = [](int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t value_dim) {
      return nlohmann::json{{"heads", heads},
                            {"kv_heads", kv_heads},
                            {"head_dim", head_dim},
                            {"value_dim", value_dim}};
    };
    nlohmann::json attention;
    if (name == "marian") {
      attention = {{"enc.L0", own(3, 3, 5, 7)},
                   {"dec.L1", own(1, 1, 32, 40)},
                   {"cross.L0", own(4, 2, 6, 3)}};
    } else if (name == "llama") {
      attention = {{"L0", own(6, 2, read_config(golden_model(name)).decoder.head_dim, 5)}};
    } else {
      attention = {{"L0", own(3, 3, 5, 7)}, {"L1", own(1, 1, 48, 32)}};
    }
    config["model_type"] = "headwise_" + config["model_type"].get<std::string>();
    config["headwise"]["attention"] = attention;
    config[name == "marian" ? "init_std" : "initializer_range"] =
        0.3;  // attention that is not flat
    return TrainableModel::create(config.dump(), {.seed = 6});
  }
};

TEST_P(OwnHeadsGradient, IsTheSlopeOfTheLoss) {
  Check(create(GetParam()), texts_of(GetParam()), {.head_dropout = 0.2f, .seed = 5}).every_tensor();
}

TEST_P(OwnHeadsGradient, TheSavedModelRunsTheSame) {
  TrainableModel model = create(GetParam());
  const TemporaryFolder folder;
  model.save(folder.path());
  const Model saved = Model::load(folder.path());
  const TrainingBatch batch = batch_of(texts_of(GetParam()), model.config());
  const Activations hidden = saved.config().encoder_decoder()
                                 ? saved.forward(batch.source, batch.target)
                                 : saved.forward(batch.source);
  const Activations logits = saved.output(hidden.rows);
  double expected = 0;
  for (int64_t row = 0; row < logits.rows.extent(0); ++row) {
    if (batch.labels[row] == kIgnoreIndex) continue;
    double sum = 0;
    for (int64_t v = 0; v < logits.rows.extent(1); ++v)
      sum += std::exp(double{logits.rows(row, v)});
    expected += std::log(sum) - double{logits.rows(row, batch.labels[row])};
  }
  EXPECT_NEAR(model.evaluate(batch).loss, expected, 2e-5 * expected);
}

INSTANTIATE_TEST_SUITE_P(Models, OwnHeadsGradient,
                         testing::Values("bert", "gpt2", "llama", "marian", "normless"),
                         [](const auto& info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Models, TrainGradient, testing::ValuesIn(kModels),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace headwise
