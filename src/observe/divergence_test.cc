// js against divergences of stored maps, and laws that it follows.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>

#include "golden/folder.h"
#include "headwise/core/parallel.h"
#include "observe/metric_testing.h"
#include "observe/small_bert_testing.h"

namespace headwise::tests {
namespace {

constexpr double kTolerance = 1e-5;  // absolute and relative

double entropy(const std::vector<double>& p) {
  double sum = 0;
  for (const double x : p) sum -= x > 0 ? x * std::log(x) : 0;
  return sum;
}

/// Divergences of all pairs of heads of one type of attention, from the maps of all rows.
class PlainDivergences : public ForwardObserver {
 public:
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3>, View<const float, 2>) override {
    std::vector<int64_t> all(attention.q.extent(0));
    for (size_t t = 0; t < all.size(); ++t) all[t] = static_cast<int64_t>(t);
    const AttentionMaps stored = layer.maps(attention, all);
    for (int64_t h = 0; h < stored.heads; ++h) {
      auto& rows = maps[site.name.substr(0, site.name.find_first_of(".L"))][site.head_name(h)];
      for (size_t t = 0; t < all.size(); ++t) {
        const auto row = stored.row(static_cast<int64_t>(t), h);
        rows.emplace_back(row.begin(), row.end());
      }
    }
  }

  double mean(const std::string& type, const std::string& a, const std::string& b) const {
    const auto &p = maps.at(type).at(a), &q = maps.at(type).at(b);
    double sum = 0;
    int64_t rows = 0;
    for (size_t t = 0; t < p.size(); ++t) {
      const auto sees = [](double x) { return x > 0; };
      if (std::ranges::none_of(p[t], sees) || std::ranges::none_of(q[t], sees)) continue;
      std::vector<double> middle(p[t].size());
      for (size_t j = 0; j < middle.size(); ++j) middle[j] = (p[t][j] + q[t][j]) / 2;
      sum += entropy(middle) - (entropy(p[t]) + entropy(q[t])) / 2;
      ++rows;
    }
    return sum / static_cast<double>(rows);
  }

  std::map<std::string, std::map<std::string, std::vector<std::vector<double>>>> maps;
};

struct Case {
  const char* name;
  std::vector<int64_t> lengths;
};

/// Every matrix, also across layers, of models with all that attention has: shared keys, windows,
/// relative bias, fixed heads, gates that are 0 for some rows, texts that are run one by one.
TEST(Divergence, EqualsThatOfStoredMaps) {
  for (const Case& one :
       {Case{"bert", {9, 1, 14}}, Case{"llama_routed", {9, 12}}, Case{"gpt2_mixed", {3, 12}},
        Case{"mistral", {15, 4}}, Case{"mpnet", {11, 8}}, Case{"bert_fixed", {11, 1, 2}},
        Case{"llama_rope_dynamic", {14, 6, 20}}, Case{"marian_mixed", {5, 9}}, Case{"t5", {8, 3}},
        Case{"bert_pruned", {8, 3}}}) {
    SCOPED_TRACE(one.name);
    const Model model = load_golden_model(one.name);
    const bool two = model.config().encoder_decoder();
    const TextPair texts{drawn_texts(one.lengths), two ? drawn_texts({4, 7}, 2) : TokenBatch{}};
    PlainDivergences plain;
    const ForwardOptions options{.observer = &plain};
    (void)(two ? model.forward(texts.source, texts.target, options)
               : model.forward(texts.source, options));
    for (const bool all_pairs : {false, true}) {
      const MetricRun metric_run{.model = model, .make = divergence_metric, .all_pairs = all_pairs};
      const Evidence evidence = metric_run.run({&texts, 1});
      int64_t layers = 0, types = 0;
      for (const auto& [group, matrix] : evidence.pairs.at("js")) {
        (group.find('L') == std::string::npos ? types : layers) += 1;
        expect_symmetric(matrix);
        const std::string type = group == "all" ? "" : group.substr(0, group.find_first_of(".L"));
        for (int64_t a = 0; a < std::ssize(matrix.heads); ++a) {
          EXPECT_EQ(matrix.at(a, a), 0);
          for (int64_t b = 0; b < a; ++b) {
            const double expected = plain.mean(type, matrix.heads[a], matrix.heads[b]);
            EXPECT_NEAR(matrix.at(a, b), expected, kTolerance * (1 + expected))
                << matrix.heads[a] << ' ' << matrix.heads[b];
          }
        }
      }
      int64_t with_heads = 0;
      for (const AttentionSite& site : model.attentions()) with_heads += !site.heads.empty();
      EXPECT_EQ(layers, with_heads);
      EXPECT_EQ(types, !all_pairs ? 0 : two ? 3 : 1);
    }
  }
}

TEST(Divergence, EqualHeadsDoNotDiffer) {
  SmallBert bert({.width = 12, .heads = 3, .layers = 2});
  for (const char* part : {"self.query", "self.key"}) {
    copy(bert.head(1, part, 0), bert.head(1, part, 2));
  }
  const Model model = bert.load();
  const std::vector<TextPair> texts = {{drawn_texts({20, 7})}, {drawn_texts({30}, 2)}};
  const Evidence evidence = MetricRun{.model = model, .make = divergence_metric}.run(texts);
  const PairMatrix& js = evidence.pairs.at("js").at("L1");
  EXPECT_NEAR(js.at(0, 2), 0, 1e-7);  // their lse may differ in its last bit
  EXPECT_GT(js.at(0, 1), 1e-3);
}

TEST(Divergence, PermutedHeadsGiveAPermutedMatrix) {
  SmallBert bert({.width = 12, .heads = 3});
  const std::vector<TextPair> texts = {{drawn_texts({20, 7})}};
  const auto js = [&] {
    return MetricRun{.model = bert.load(), .make = divergence_metric}.run(texts).pairs.at("js").at(
        "L0");
  };
  const PairMatrix before = js();
  for (const char* part : kProjections) swap(bert.head(0, part, 0), bert.head(0, part, 1));
  expect_near(js(), permuted(before, {1, 0, 2}), 1e-6);
}

TEST(Divergence, BatchesAndThreadsDoNotMatter) {
  const Model model = load_golden_model("bert");
  TokenBatch both = drawn_texts({12, 9});
  TokenBatch first, second;
  first.add(std::span(both.ids).subspan(0, 12));
  second.add(std::span(both.ids).subspan(12));
  const MetricRun metric_run{.model = model, .make = divergence_metric, .all_pairs = true};
  const int before = threads();
  set_threads(1);
  const Evidence one = metric_run.run(std::vector<TextPair>{{both}});
  const Evidence apart = metric_run.run(std::vector<TextPair>{{first}, {second}});
  set_threads(3);
  const Evidence three = metric_run.run(std::vector<TextPair>{{both}});
  set_threads(before);
  for (const auto& [group, matrix] : one.pairs.at("js")) {
    expect_near(three.pairs.at("js").at(group), matrix, 0);
    expect_near(apart.pairs.at("js").at(group), matrix, 1e-6);
  }
}

/// Weights are those before gates, whatever the gates do to the layers behind.
TEST(Divergence, GatesOfALayerDoNotChangeItsWeights) {
  const Model model = load_golden_model("bert");
  std::vector<float> gates(model.heads(), 1.0f);
  gates[1] = 0;
  const std::vector<TextPair> texts = {{drawn_texts({12, 9})}};
  const MetricRun plain{.model = model, .make = divergence_metric};
  const MetricRun gated{
      .model = model, .make = divergence_metric, .gates = {gates.data(), {1, model.heads()}}};
  expect_near(gated.run(texts).pairs.at("js").at("L0"), plain.run(texts).pairs.at("js").at("L0"),
              1e-7);
}

TEST(Divergence, SaysNothingWithoutTexts) {
  const Model model = load_golden_model("bert");
  EXPECT_TRUE(MetricRun({.model = model, .make = divergence_metric}).run({}).pairs.empty());
}

}  // namespace
}  // namespace headwise::tests
