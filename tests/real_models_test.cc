// Models with trained weights against transformers: MiniLM, fetched by ./dev model minilm, and the
// stories models beside the checkout. tests/golden/real/README.md says what is compared.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "golden/golden_tensors.h"
#include "headwise/io/tensor_file.h"
#include "headwise/kernels/softmax.h"
#include "headwise/model/model.h"
#include "headwise/model/sentence_embedding.h"
#include "headwise/text/tokenizer.h"

namespace headwise {
namespace {

/// The largest difference that float32 may make, relative to the largest activation.
constexpr double kRealTolerance = 2e-5;

const std::filesystem::path kSource = project_folder();

struct RealModel {
  const char* name;
  std::filesystem::path folder;
  const char* missing;
};

const RealModel kMiniLm = {"minilm", kSource / "build/models/minilm",
                           "MiniLM is not there; ./dev model minilm fetches it"};
const RealModel kStories15m = {"stories15m", kSource / "../shared/models/stories15m",
                               "../shared/models/stories15m is not there"};
const RealModel kStories260k = {"stories260k", kSource / "../shared/models/stories260k",
                                "../shared/models/stories260k is not there"};

#define SKIP_IF_ABSENT(model) \
  if (!std::filesystem::exists((model).folder / "config.json")) GTEST_SKIP() << (model).missing

class ExpectedStates : public GoldenTensors {
 public:
  explicit ExpectedStates(const std::string& name)
      : GoldenTensors(golden_folder() / "real" / (name + ".safetensors")) {}

  std::vector<std::string> texts() const {
    std::istringstream all(files_.metadata().at("texts"));
    std::vector<std::string> texts;
    for (std::string line; std::getline(all, line);) texts.push_back(line);
    return texts;
  }

  TokenBatch batch() const {
    TokenBatch batch;
    const std::vector<int64_t> all = integers("ids");
    int64_t at = 0;
    for (const int64_t length : integers("lengths")) {
      batch.add(std::vector<int32_t>(all.begin() + at, all.begin() + at + length));
      at += length;
    }
    return batch;
  }
};

std::span<const float> flat(const Activations& rows) {
  return {rows.rows.data(), static_cast<size_t>(rows.rows.extent(0) * rows.rows.extent(1))};
}

float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

void expect_states_near(const std::string& what, std::span<const float> got,
                        std::span<const float> expected, float largest) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  float error = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error = std::max(error, std::isnan(got[i]) ? INFINITY : std::abs(got[i] - expected[i]));
  }
  EXPECT_LE(error, kRealTolerance * largest) << what << ", largest value " << largest;
  testing::Test::RecordProperty(what, testing::PrintToString(error / largest));
}

void expect_states_near(const std::string& what, std::span<const float> got,
                        std::span<const float> expected) {
  expect_states_near(what, got, expected, largest_of(expected));
}

void expect_ids_of_texts(const RealModel& model) {
  const ExpectedStates expected(model.name);
  const Tokenizer tokenizer = Tokenizer::load(model.folder);
  const TokenBatch batch = expected.batch();
  const std::vector<std::string> texts = expected.texts();
  for (size_t b = 0; b < texts.size(); ++b) {
    EXPECT_EQ(tokenizer.encode(texts[b]).ids,
              std::vector<int32_t>(batch.ids.begin() + batch.offsets[b],
                                   batch.ids.begin() + batch.offsets[b + 1]))
        << texts[b];
  }
}

TEST(MiniLm, IdsOfTexts) {
  SKIP_IF_ABSENT(kMiniLm);
  expect_ids_of_texts(kMiniLm);
}

/// Every layer's row of one token, and to what it attends.
class OneToken : public ForwardObserver {
 public:
  explicit OneToken(int64_t row) : row_(row) {}

  void on_z(const AttentionSite&, const Attention& attention, const MultiHeadAttention&,
            View<float, 3>, View<const float, 2>) override {
    const std::vector<int64_t> rows = {row_};
    const AttentionMaps seen = attention_maps(attention, rows);
    for (int64_t h = 0; h < seen.heads; ++h) {
      const auto weights = seen.row(0, h);
      maps.insert(maps.end(), weights.begin(), weights.end());
    }
  }

  void on_resid_post(Side, int64_t, View<const float, 2> rows) override {
    layers.insert(layers.end(), &rows(row_, 0), &rows(row_, 0) + rows.extent(1));
  }

  std::vector<float> layers, maps;

 private:
  int64_t row_;
};

TEST(MiniLm, HiddenStatesMapsAndEmbeddings) {
  SKIP_IF_ABSENT(kMiniLm);
  const ExpectedStates expected(kMiniLm.name);
  const Model model = load(kMiniLm.folder);
  const auto pooling = SentencePooling::find(kMiniLm.folder);
  ASSERT_TRUE(pooling.has_value());
  const TokenBatch batch = expected.batch();
  std::vector<int64_t> first_two;
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    first_two.insert(first_two.end(), {batch.offsets[b], batch.offsets[b] + 1});
  }
  OneToken observer(batch.offsets[1] + 1);
  const Activations hidden = model.forward(batch, {.observer = &observer});
  expect_states_near("hidden", flat(gather(hidden.rows, first_two)), expected.floats("hidden"),
                     largest_of(flat(hidden)));
  expect_states_near("layers", observer.layers, expected.floats("layers"));
  expect_states_near("maps", observer.maps, expected.floats("maps"));
  expect_states_near("embedding", flat(pooling->embed(hidden.rows, batch.offsets)),
                     expected.floats("embedding"));

  const std::vector<float> gates = expected.floats("gates");
  const Activations gated = model.forward(batch, {.gates = {gates.data(), {1, std::ssize(gates)}}});
  expect_states_near("gated.hidden", flat(gather(gated.rows, first_two)),
                     expected.floats("gated.hidden"), largest_of(flat(gated)));
  expect_states_near("gated.embedding", flat(pooling->embed(gated.rows, batch.offsets)),
                     expected.floats("gated.embedding"));
}

class Stories : public testing::TestWithParam<RealModel> {};

/// Compares what the golden file has of logits [T, V].
void expect_logits(const ExpectedStates& expected, const std::string& prefix,
                   const Activations& logits, std::span<const int64_t> last) {
  const float largest = largest_of(flat(logits));
  const std::vector<float> some = expected.floats(prefix + "logits");
  const int64_t V = logits.rows.extent(1);
  const int64_t step = V * std::ssize(last) / std::ssize(some);
  std::vector<float> picked;
  for (const int64_t row : last) {
    for (int64_t column = 0; column < V; column += step) picked.push_back(logits.rows(row, column));
  }
  expect_states_near(prefix + "logits", picked, some, largest);
  std::vector<float> sums(logits.rows.extent(0));
  log_sum_exp(logits.rows, sums);
  expect_states_near(prefix + "log_sum_exp", sums, expected.floats(prefix + "log_sum_exp"),
                     largest);
}

TEST_P(Stories, IdsOfTexts) {
  SKIP_IF_ABSENT(GetParam());
  expect_ids_of_texts(GetParam());
}

TEST_P(Stories, Logits) {
  SKIP_IF_ABSENT(GetParam());
  const ExpectedStates expected(GetParam().name);
  const Model model = load(GetParam().folder);
  const TokenBatch batch = expected.batch();
  std::vector<int64_t> last;
  for (int64_t b = 0; b < batch.sequences(); ++b) last.push_back(batch.offsets[b + 1] - 1);

  const Activations hidden = model.forward(batch);
  expect_states_near("hidden", flat(gather(hidden.rows, last)), expected.floats("hidden"));
  const Activations logits = model.output(hidden.rows);
  expect_logits(expected, "", logits, last);
  const std::vector<int64_t> best = expected.integers("best");
  std::vector<float> best_logit;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const float* const begin = &logits.rows(row, 0);
    const float* const most = std::max_element(begin, begin + logits.rows.extent(1));
    EXPECT_EQ(most - begin, best[row]) << row;
    best_logit.push_back(*most);
  }
  expect_states_near("best.logit", best_logit, expected.floats("best.logit"));

  const std::vector<float> gates = expected.floats("gates");
  const Activations gated = model.forward(batch, {.gates = {gates.data(), {1, std::ssize(gates)}}});
  expect_logits(expected, "gated.", model.output(gated.rows), last);
}

INSTANTIATE_TEST_SUITE_P(All, Stories, testing::Values(kStories260k, kStories15m),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace headwise
