// Models against transformers: hidden states, maps, outputs, gates and pruned heads of small random
// checkpoints of every architecture. tests/golden/models/README.md says what is compared.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "golden/golden_tensors.h"
#include "headwise/io/tensor_file.h"
#include "headwise/model/generate.h"
#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"

namespace headwise {
namespace {

/// The largest difference that float32 may make, relative to the largest value.
constexpr double kTolerance = 2e-5;

std::filesystem::path golden_models() { return golden_folder() / "models"; }

class Expected : public GoldenTensors {
 public:
  explicit Expected(const std::filesystem::path& folder)
      : GoldenTensors(folder / "expected.safetensors") {}

  TokenBatch batch(const std::string& ids, const std::string& lengths) const {
    TokenBatch batch;
    const std::vector<int64_t> all = integers(ids);
    const std::vector<int64_t> types =
        ids == "ids" && has("type_ids") ? integers("type_ids") : std::vector<int64_t>{};
    int64_t at = 0;
    for (const int64_t length : integers(lengths)) {
      const std::vector<int32_t> text(all.begin() + at, all.begin() + at + length);
      std::vector<int32_t> kinds;
      if (!types.empty()) kinds.assign(types.begin() + at, types.begin() + at + length);
      batch.add(text, kinds);
      at += length;
    }
    return batch;
  }
};

/// Every golden file by the name of its folder. Opened once: each test of the program lists them
/// all when it starts.
const std::map<std::string, Expected>& golden_files() {
  static const std::map<std::string, Expected> files = [] {
    std::map<std::string, Expected> found;
    for (const auto& entry : std::filesystem::directory_iterator(golden_models())) {
      if (!std::filesystem::exists(entry.path() / "expected.safetensors")) continue;
      found.emplace(entry.path().filename().string(), entry.path());
    }
    return found;
  }();
  return files;
}

/// The folders whose golden file has a tensor of this name, or any tensor.
std::vector<std::string> models_with(const std::string& tensor = "ids") {
  std::vector<std::string> names;
  for (const auto& [name, file] : golden_files()) {
    if (file.has(tensor)) names.push_back(name);
  }
  return names;
}

std::string name_of(const testing::TestParamInfo<std::string>& info) { return info.param; }

void expect_near(const std::string& what, std::span<const float> got,
                 std::span<const float> expected) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  float largest = 0, error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    error = std::max(error, std::isnan(got[i]) ? INFINITY : std::abs(got[i] - expected[i]));
  }
  EXPECT_LE(error, kTolerance * largest) << what << ", largest value " << largest;
}

void expect_near(const std::string& what, const Activations& got, std::span<const float> expected) {
  expect_near(what,
              std::span<const float>(got.rows.data(), got.rows.extent(0) * got.rows.extent(1)),
              expected);
}

/// Keeps what the golden files have.
class Recorder : public ForwardObserver {
 public:
  explicit Recorder(bool two) : two_(two) {}

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3>, View<const float, 2>) override {
    std::vector<int64_t> rows(attention.q.extent(0));
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
    const AttentionMaps maps = layer.maps(attention, rows);
    std::vector<float>& flat = values[site.name + ".map"];
    for (size_t b = 0; b + 1 < attention.q_offsets.size(); ++b) {
      for (int64_t h = 0; h < maps.heads; ++h) {
        for (int64_t row = attention.q_offsets[b]; row < attention.q_offsets[b + 1]; ++row) {
          const auto weights = maps.row(row, h);
          flat.insert(flat.end(), weights.begin(), weights.end());
        }
      }
    }
  }

  void on_resid_post(Side side, int64_t layer, View<const float, 2> rows) override {
    const std::string prefix = !two_ ? "" : side == Side::encoder ? "enc." : "dec.";
    values[layer < 0 ? prefix + "embeddings" : fmt::format("{}L{}.hidden", prefix, layer)].assign(
        rows.data(), rows.data() + rows.extent(0) * rows.extent(1));
  }

  std::map<std::string, std::vector<float>> values;

 private:
  bool two_;
};

class ModelGolden : public testing::TestWithParam<std::string> {
 protected:
  std::filesystem::path folder() const { return golden_models() / GetParam(); }

  /// All outputs that the golden file has under `prefix`.
  void expect_outputs(const Model& model, const Expected& expected, const ForwardOptions& options,
                      const std::string& prefix) const {
    const TokenBatch batch = expected.batch("ids", "lengths");
    const bool two = model.config().encoder_decoder();
    Activations hidden;
    std::vector<int64_t> offsets = batch.offsets;
    if (two) {
      const TokenBatch target = expected.batch("decoder_ids", "decoder_lengths");
      if (expected.has(prefix + "enc.final")) {
        expect_near(prefix + "enc.final", model.forward(batch, options),
                    expected.floats(prefix + "enc.final"));
      }
      hidden = model.forward(batch, target, options);
      offsets = target.offsets;
    } else {
      hidden = model.forward(batch, options);
    }
    const std::string final = prefix + (two ? "dec.final" : "final");
    if (expected.has(final)) expect_near(final, hidden, expected.floats(final));
    if (model.output_width() == 0) return;
    const Activations out = model.output(gather(hidden.rows, model.output_rows(offsets)).rows);
    if (model.config().task == Task::answer) {
      for (const int64_t which : {0, 1}) {
        const std::string name = prefix + (which == 0 ? "start_logits" : "end_logits");
        std::vector<float> column;
        for (int64_t row = 0; row < out.rows.extent(0); ++row)
          column.push_back(out.rows(row, which));
        expect_near(name, column, expected.floats(name));
      }
    } else {
      expect_near(prefix + "logits", out, expected.floats(prefix + "logits"));
    }
  }
};

class HiddenStatesGolden : public ModelGolden {};
class GatesGolden : public ModelGolden {};
class GenerationGolden : public ModelGolden {};
class EmbeddingGolden : public ModelGolden {};

TEST_P(HiddenStatesGolden, AgreeWithMaps) {
  const Expected expected(folder());
  const Model model = load(folder());
  Recorder recorder(model.config().encoder_decoder());
  const ForwardOptions options{.observer = &recorder};
  const TokenBatch batch = expected.batch("ids", "lengths");
  if (model.config().encoder_decoder()) {
    (void)model.forward(batch, expected.batch("decoder_ids", "decoder_lengths"), options);
  } else {
    (void)model.forward(batch, options);
  }
  int compared = 0;
  for (const auto& [name, values] : recorder.values) {
    if (!expected.has(name)) continue;
    expect_near(name, values, expected.floats(name));
    ++compared;
  }
  EXPECT_GE(compared, 2 * (model.config().encoder.layers() + model.config().decoder.layers()));
}

TEST_P(ModelGolden, OutputsAgree) { expect_outputs(load(folder()), Expected(folder()), {}, ""); }

TEST_P(GatesGolden, OutputsAgree) {
  const Expected expected(folder());
  const Model model = load(folder());
  std::vector<float> gates;
  for (const AttentionSite& site : model.attentions()) {
    const std::vector<float> of_site = expected.floats("gates." + site.name);
    ASSERT_EQ(of_site.size(), site.heads.size()) << site.name;
    gates.insert(gates.end(), of_site.begin(), of_site.end());
  }
  expect_outputs(model, expected,
                 {.gates = View<const float, 2>(gates.data(), {1, std::ssize(gates)})}, "gated.");
}

TEST_P(GenerationGolden, TokensAgree) {
  const Expected expected(folder());
  const Model model = load(folder());
  const TokenBatch batch = expected.batch("ids", "lengths");
  for (int at = 0; expected.has(fmt::format("generate.{}.ids", at)); ++at) {
    const std::string name = fmt::format("generate.{}.", at);
    const std::vector<float> params = expected.floats(name + "options");
    GenerateOptions options = read_generation(folder(), model.config());
    options.beams = static_cast<int64_t>(params[0]);
    options.length_penalty = params[1];
    options.early_stopping = params[2] != 0;
    options.max_new_tokens = static_cast<int64_t>(params[3]);
    const std::vector<Generated> got = generate(model, batch, options);
    const TokenBatch ids = expected.batch(name + "ids", name + "lengths");
    ASSERT_EQ(std::ssize(got), ids.sequences());
    for (int64_t b = 0; b < ids.sequences(); ++b) {
      EXPECT_EQ(got[b].ids,
                std::vector(ids.ids.begin() + ids.offsets[b], ids.ids.begin() + ids.offsets[b + 1]))
          << name << " text " << b;
      if (options.beams == 1) continue;
      EXPECT_NEAR(got[b].score, expected.floats(name + "scores")[b], 1e-4) << name << " text " << b;
    }
  }
}

TEST_P(EmbeddingGolden, Agrees) {
  const Expected expected(folder());
  const Model model = load(folder());
  const TokenBatch batch = expected.batch("ids", "lengths");
  const auto pooling = SentencePooling::find(folder());
  ASSERT_TRUE(pooling);
  expect_near("embedding", pooling->embed(model.forward(batch).rows, batch.offsets),
              expected.floats("embedding"));
}

/// Of one stack and of two.
std::vector<std::string> models_with_either(const std::string& one, const std::string& two) {
  std::vector<std::string> names = models_with(one);
  const std::vector<std::string> more = models_with(two);
  names.insert(names.end(), more.begin(), more.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, ModelGolden, testing::ValuesIn(models_with()), name_of);
INSTANTIATE_TEST_SUITE_P(All, HiddenStatesGolden,
                         testing::ValuesIn(models_with_either("L0.map", "enc.L0.map")), name_of);
INSTANTIATE_TEST_SUITE_P(All, GatesGolden,
                         testing::ValuesIn(models_with_either("gates.L0", "gates.enc.L0")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, GenerationGolden, testing::ValuesIn(models_with("generate.0.ids")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(All, EmbeddingGolden, testing::ValuesIn(models_with("embedding")),
                         name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EmbeddingGolden);

}  // namespace
}  // namespace headwise
