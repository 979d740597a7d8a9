// Arrays of heads: what must hold between them in any model, and what heads cost.
#include "headwise/model/head_arrays.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <vector>

#include "golden/folder.h"
#include "headwise/core/error.h"
#include "headwise/model/head_cost.h"

namespace headwise {
namespace {

TokenBatch text() {
  TokenBatch batch;
  batch.add(std::vector<int32_t>{5, 9, 3, 7});
  return batch;
}

std::vector<HeadArray> recorded(const Model& model, HeadArrayKind kind,
                                View<const float, 2> gates = {}) {
  HeadRecorder recorder(model, model.find_heads("all"), kind);
  (void)model.forward(text(), {.gates = gates, .observer = &recorder});
  return std::move(recorder.arrays);
}

/// What attentions add to the residual stream.
class Added : public ForwardObserver {
 public:
  bool wants_attn_out() const override { return true; }
  void on_attn_out(const AttentionSite& site, View<const float, 2> rows) override {
    for (int64_t row = 0; row < rows.extent(0); ++row) {
      for (int64_t c = 0; c < rows.extent(1); ++c) sums[site.name].push_back(rows(row, c));
    }
  }
  std::map<std::string, std::vector<float>> sums;
};

TEST(HeadArrays, RowsOfMapsSumToOne) {
  for (const char* const folder : {"bert", "gpt2", "llama_pruned", "bert_fixed"}) {
    const Model model = load(golden_model(folder).string());
    const auto maps = recorded(model, HeadArrayKind::maps);
    ASSERT_EQ(std::ssize(maps), model.heads());
    for (int64_t head = 0; head < model.heads(); ++head) {
      const HeadArray& map = maps[head];
      EXPECT_EQ(map.name, model.head_name(head));
      ASSERT_EQ(map.rows, 4);
      ASSERT_EQ(map.columns, 4);
      for (int64_t row = 0; row < map.rows; ++row) {
        double sum = 0;
        for (int64_t key = 0; key < map.columns; ++key) sum += map.view()(row, key);
        // A fixed head that looks before the first token attends to nothing there.
        if (sum != 0) {
          EXPECT_NEAR(sum, 1, 1e-5) << folder << " " << map.name;
        }
      }
    }
  }
}

TEST(HeadArrays, ContributionsAndTheBiasAreWhatAnAttentionAdds) {
  for (const char* const folder : {"bert", "gpt2", "llama_pruned"}) {
    const Model model = load(golden_model(folder).string());
    Added added;
    (void)model.forward(text(), {.observer = &added});
    std::map<std::string, std::vector<double>> sums;
    for (const HeadArray& one : recorded(model, HeadArrayKind::contribution)) {
      std::vector<double>& sum = sums[one.site->name];
      sum.resize(one.values.size());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += one.values[i];
    }
    for (int64_t site = 0; site < std::ssize(model.attentions()); ++site) {
      const std::string& name = model.attentions()[site].name;
      const auto weights = model.layer(site).weights();
      const View<float, 1> bias = weights->output_bias();
      const int64_t width = model.config().width;
      if (model.attentions()[site].heads.empty()) sums[name].resize(added.sums[name].size());
      ASSERT_EQ(sums[name].size(), added.sums[name].size()) << folder << " " << name;
      for (size_t i = 0; i < sums[name].size(); ++i) {
        const double own = bias.empty() ? 0 : bias(static_cast<int64_t>(i) % width);
        EXPECT_NEAR(sums[name][i] + own, added.sums[name][i], 1e-4) << folder << " " << name;
      }
    }
  }
}

TEST(HeadArrays, TheOutputOfAHeadWithAGateOfZeroIsZero) {
  const Model model = load(golden_model("gpt2").string());
  std::vector<float> gates(model.heads(), 1);
  gates[1] = 0;
  const auto z = recorded(model, HeadArrayKind::z, {gates.data(), {1, std::ssize(gates)}});
  for (const float value : z[1].values) EXPECT_EQ(value, 0);
  float most = 0;
  for (const float value : z[0].values) most = std::max(most, std::abs(value));
  EXPECT_GT(most, 0);
}

TEST(HeadArrays, NamesAreThoseOfTheKinds) {
  for (const std::string_view name : head_array_kind_names()) {
    EXPECT_EQ(to_string(head_array_kind(name)), name);
  }
  EXPECT_THROW(head_array_kind("map"), Error);
}

TEST(HeadArrays, FixedHeadsHaveNoQueries) {
  const Model model = load(golden_model("bert_fixed").string());
  EXPECT_THROW(recorded(model, HeadArrayKind::q), Error);
  EXPECT_EQ(std::ssize(recorded(model, HeadArrayKind::v)), model.heads());
}

TEST(HeadArrays, APassCanBeStoppedAtEveryLayer) {
  const Model model = load(golden_model("bert").string());
  int layers = 0;
  HeadRecorder recorder(model, model.find_heads("L0"), HeadArrayKind::z, [&] {
    if (++layers == 2) throw Error({.what = "stopped"});
  });
  EXPECT_THROW((void)model.forward(text(), {.observer = &recorder}), Error);
}

TEST(HeadCost, OneHeadAsWideAsAllHasTheParametersButFewerDistributions) {
  const ModelSummary summary = summarize(golden_model("bert"));
  const auto compared = compare_with_one_head(summary, 10);
  ASSERT_TRUE(compared);
  const AttentionSummary& layer = summary.attentions.front();
  const int64_t H = layer.shape.heads, D = layer.site.head_dim, C = summary.config.width;
  EXPECT_EQ(compared->layer, layer.site.name);
  EXPECT_EQ(compared->heads.heads, H);
  EXPECT_EQ(compared->one.heads, 1);
  EXPECT_EQ(compared->one.head_dim, H * D);
  EXPECT_EQ(compared->heads.parameters, layer.parameters);
  EXPECT_EQ(compared->one.parameters, layer.parameters);
  EXPECT_EQ(compared->heads.parameters - compared->heads.parameters_without_output, H * D * C + C);
  EXPECT_EQ(compared->heads.distributions, 10 * H);
  EXPECT_EQ(compared->one.distributions, 10);
  EXPECT_EQ(compared->heads.multiply_adds, compared->one.multiply_adds);
}

TEST(HeadCost, NothingIsComparedWithoutHeads) {
  EXPECT_FALSE(compare_with_one_head(ModelSummary{}, 10));
}

}  // namespace
}  // namespace headwise
