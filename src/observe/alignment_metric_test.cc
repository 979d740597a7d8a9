// Alignment against a plain loop over stored maps.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "observe/accuracy.h"
#include "observe/data_pass.h"
#include "observe/labelled_testing.h"

namespace headwise {
namespace {

/// Pairs of texts whose tokens are aligned by chance: with none, one or two of the source.
ObservedCorpus chance_pairs(int64_t count) {
  Random random(11);
  ObservedCorpus corpus;
  for (int64_t i = 0; i < count; ++i) {
    ObservedText& text = corpus.texts.emplace_back();
    const auto draw = [&](uint32_t length) {
      std::vector<int32_t> ids;
      for (uint32_t t = 0; t < length; ++t) ids.push_back(static_cast<int32_t>(random.below(50)));
      return ids;
    };
    text.ids = draw(3 + random.below(8));
    text.decoder_ids = draw(2 + random.below(9));
    if (i % 6 == 5) continue;  // not known
    for (size_t t = 0; t < text.decoder_ids.size(); ++t) {
      std::vector<int32_t>& keys = text.aligned.emplace_back();
      const auto first = static_cast<int32_t>(random.below(static_cast<uint32_t>(text.ids.size())));
      if (t % 3 > 0) keys.push_back(first);
      if (t % 3 > 1 && first + 1 < std::ssize(text.ids)) keys.push_back(first + 1);
    }
  }
  return corpus;
}

/// The keys of the largest weights, [head][row], of cross attention.
struct LargestKeys : ForwardObserver {
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> out, View<const float, 2>) override {
    if (site.kind != AttentionKind::cross) return;
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < out.extent(0); ++row) rows.push_back(row);
    const AttentionMaps maps = layer.maps(attention, rows);
    for (int64_t h = 0; h < out.extent(1); ++h) {
      for (const int64_t row : rows) {
        const auto weights = maps.row(row, h);
        keys[site.first + h].push_back(std::ranges::max_element(weights) - weights.begin());
      }
    }
  }
  std::map<int64_t, std::vector<int64_t>> keys;
};

struct PlainAlignment {
  std::map<int64_t, std::vector<bool>> right{};  // of heads: each item
  std::map<int64_t, std::vector<int64_t>> offsets{};
  int64_t items = 0;

  double best_offset(int64_t begin, int64_t step) const {
    int64_t most = 0;
    for (const auto& [offset, numbers] : offsets) {
      most = std::max<int64_t>(most, std::ranges::count_if(numbers, [&](int64_t number) {
                                 return step == 1 || number % 2 == begin;
                               }));
    }
    return static_cast<double>(most) / static_cast<double>((items - begin + step - 1) / step);
  }
  Measure measure(int64_t head, int64_t begin, int64_t step) const {
    int64_t n = 0, hits = 0;
    for (int64_t i = begin; i < items; i += step, ++n) hits += right.at(head)[i];
    return accuracy(hits, n, best_offset(begin, step));
  }
};

class Alignment : public testing::TestWithParam<std::string> {};

TEST_P(Alignment, EqualsAPlainLoopOverStoredMaps) {
  const Model model = load_golden_model(GetParam());
  const ObservedCorpus corpus = chance_pairs(40);
  const MetricContext context{.model = model, .corpus = corpus};
  std::vector<Measures> heads(model.heads());
  Evidence evidence;
  run_data_pass(context, {DataPass::alignment}, {}, heads, evidence);

  for (const int64_t ahead : {0, 1}) {
    const std::string name = ahead == 1 ? "alignment" : "alignment_read";
    PlainAlignment plain;
    for (const ObservedText& text : corpus.texts) {
      LargestKeys largest;
      TokenBatch source, target;
      source.add(text.ids);
      target.add(text.decoder_ids);
      (void)model.forward(source, target, {.observer = &largest});
      for (int64_t t = ahead; t < std::ssize(text.aligned); ++t) {
        if (text.aligned[t].empty()) continue;
        for (const auto& [head, keys] : largest.keys) {
          plain.right[head].push_back(std::ranges::count(text.aligned[t], keys[t - ahead]) > 0);
        }
        for (const int32_t key : text.aligned[t]) {
          plain.offsets[key - (t - ahead)].push_back(plain.items);
        }
        ++plain.items;
      }
    }
    int64_t best = -1;
    for (const AttentionSite& site : model.attentions()) {
      for (int64_t h = site.first; h < site.first + std::ssize(site.heads); ++h) {
        const Measure* const measure = heads[h].find(name);
        ASSERT_EQ(measure != nullptr, site.kind == AttentionKind::cross) << name << h;
        if (measure == nullptr) continue;
        EXPECT_EQ(*measure, plain.measure(h, 0, 1)) << name << h;
        if (best < 0 || plain.measure(h, 0, 2).value > plain.measure(best, 0, 2).value) best = h;
      }
    }
    const BestHead expected{head_name(model, best), plain.measure(best, 0, 2),
                            plain.measure(best, 1, 2)};
    EXPECT_EQ(evidence.best.at(name), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Alignment, testing::Values("marian", "marian_mixed", "t5"),
                         [](const auto& info) { return info.param; });

TEST(AlignmentOfNothing, IsNotMeasured) {
  const Model model = load_golden_model("marian");
  ObservedCorpus corpus = chance_pairs(2);
  for (ObservedText& text : corpus.texts) text.aligned.clear();
  const MetricContext context{.model = model, .corpus = corpus};
  EXPECT_EQ(alignment_metric(context), nullptr);
}

}  // namespace
}  // namespace headwise
