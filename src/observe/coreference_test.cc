// Pronouns and names, against a plain computation from stored maps.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "observe/accuracy.h"
#include "observe/labelled_testing.h"

namespace headwise {
namespace {

/// Items by chance: three words of a text are the pronoun and the names.
struct ChanceItems {
  std::vector<CoreferenceItem> items{};
  ObservedCorpus corpus{};

  ChanceItems(int64_t count, bool two_sides) {
    items.resize(count);
    for (int64_t i = 0; i < count; ++i) {
      PiecedText pieces(100 + i);
      std::vector<TokenSpan> words;
      for (int w = 0; w < 7; ++w) words.push_back(pieces.add(1 + pieces.below(2)));
      const int64_t pronoun = pieces.below(7);
      int64_t right = (pronoun + 1 + pieces.below(3)) % 7;
      int64_t wrong = (pronoun + 4 + pieces.below(3)) % 7;
      if (i % 2 == 1) std::swap(right, wrong);
      items[i] = {.text = pieces.text(),
                  .pronoun = words[pronoun],
                  .right = words[right],
                  .wrong = words[wrong]};
      if (i % 7 == 3) items[i].wrong = {};  // has no tokens
      corpus.texts.push_back(pieces.finish(two_sides));
    }
    for (int64_t i = 0; i < count; ++i) corpus.texts[i].item = &items[i];
  }
};

double weight(const ObservedText& text, const std::vector<std::vector<float>>& map, TokenSpan from,
              TokenSpan to) {
  const auto in = [&](int64_t t, TokenSpan span) {
    const TokenSpan bytes = text.encoding.bytes[t];
    return text.encoding.special[t] == 0 && bytes.begin >= span.begin && bytes.end <= span.end;
  };
  double sum = 0, rows = 0;
  for (int64_t i = 0; i < std::ssize(map); ++i) {
    if (!in(i, from)) continue;
    ++rows;
    for (int64_t j = 0; j < std::ssize(map); ++j) sum += in(j, to) ? map[i][j] : 0;
  }
  return sum / rows;
}

class Coreference : public testing::TestWithParam<std::string> {};

TEST_P(Coreference, EqualsAPlainComputationFromStoredMaps) {
  const Model model = load_golden_model(GetParam());
  const ChanceItems chance(50, model.config().encoder_decoder());
  const MetricContext context{.model = model, .corpus = chance.corpus};
  const MetricResult observed = run_metric(context, coreference_metric(context));

  struct Count {
    std::vector<std::vector<bool>> right;  // [items][heads]
    std::vector<bool> nearest;
    Measure measure(int64_t head, size_t begin, size_t step) const {
      int64_t n = 0, hits = 0, near = 0;
      for (size_t i = begin; i < right.size(); i += step, ++n) {
        hits += right[i][head];
        near += nearest[i];
      }
      return accuracy(hits, n, static_cast<double>(near) / static_cast<double>(n));
    }
  };
  std::map<std::string, Count> counts;
  for (const ObservedText& text : chance.corpus.texts) {
    const auto& [id, string, pronoun, right, wrong] = *text.item;
    if (wrong.end == 0) continue;
    const SeenText seen = see(model, text);
    std::vector<bool> hits;
    for (int64_t h = 0; h < model.heads(); ++h) {
      hits.push_back(!seen.maps[h].empty() && weight(text, seen.maps[h], pronoun, right) >
                                                  weight(text, seen.maps[h], pronoun, wrong));
    }
    const bool near = std::abs(pronoun.begin - right.begin) < std::abs(pronoun.begin - wrong.begin);
    std::vector<std::string> parts = {"coreference", "coreference/before"};
    if (pronoun.begin >= right.begin) {
      parts = {"coreference", "coreference/after", near ? "coreference/near" : "coreference/far"};
    }
    for (const std::string& name : parts) {
      counts[name].right.push_back(hits);
      counts[name].nearest.push_back(near);
    }
  }
  ASSERT_EQ(counts.size(), 5u);
  const std::vector<uint8_t> heads = heads_within_text(context);
  int64_t best = -1;
  for (int64_t h = 0; h < model.heads(); ++h) {
    for (const auto& [name, count] : counts) {
      const Measure* const measure = observed.heads[h].find(name);
      ASSERT_EQ(measure != nullptr, heads[h] != 0) << name;
      if (measure == nullptr) continue;
      EXPECT_EQ(*measure, count.measure(h, 0, 1)) << name << " " << h;
    }
    if (heads[h] == 0) continue;
    const Count& all = counts["coreference"];
    if (best < 0 || all.measure(h, 0, 2).value > all.measure(best, 0, 2).value) best = h;
  }
  const BestHead expected{head_name(model, best), counts["coreference"].measure(best, 0, 2),
                          counts["coreference"].measure(best, 1, 2)};
  EXPECT_EQ(observed.evidence.best.at("coreference"), expected);
  EXPECT_EQ(observed.evidence.best.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, Coreference,
                         testing::Values("bert", "llama", "llama_fixed", "marian"),
                         [](const auto& info) { return info.param; });

/// The maps of its pronoun are more than is held at once.
TEST(CoreferenceOfALongPronoun, EqualsAPlainComputationFromStoredMaps) {
  const Model model = load_golden_model("t5");
  PiecedText pieces(3);
  CoreferenceItem item{.right = pieces.add(2), .wrong = pieces.add(2)};
  item.pronoun = pieces.add(1100);
  item.text = pieces.text();
  ObservedCorpus corpus{.texts = {pieces.finish(true)}};
  corpus.texts[0].item = &item;
  const MetricContext context{.model = model, .corpus = corpus};
  const MetricResult observed = run_metric(context, coreference_metric(context));
  const SeenText seen = see(model, corpus.texts[0]);
  const std::vector<uint8_t> heads = heads_within_text(context);
  for (int64_t h = 0; h < model.heads(); ++h) {
    if (heads[h] == 0) continue;
    const auto to = [&](TokenSpan name) {
      return weight(corpus.texts[0], seen.maps[h], item.pronoun, name);
    };
    EXPECT_EQ(observed.heads[h].find("coreference")->value, to(item.right) > to(item.wrong)) << h;
  }
}

TEST(CoreferenceBaseline, CountsCharactersNotBytes) {
  const Model model = load_golden_model("bert");
  // The right name starts 3 characters before the pronoun, which are 5 bytes; the other 4 after it.
  const CoreferenceItem item{
      .text = "éé he ac", .pronoun = {5, 7}, .right = {0, 4}, .wrong = {9, 10}};
  ObservedText text{.item = &item};
  for (const TokenSpan bytes : {TokenSpan{0, 4}, {5, 7}, {8, 9}, {9, 10}}) {
    text.ids.push_back(7);
    text.encoding.ids.push_back(7);
    text.encoding.sequence.push_back(0);
    text.encoding.special.push_back(0);
    text.encoding.bytes.push_back(bytes);
  }
  const ObservedCorpus corpus{.texts = {text}};
  const MetricContext context{.model = model, .corpus = corpus};
  const MetricResult observed = run_metric(context, coreference_metric(context));
  EXPECT_EQ(observed.heads[0].find("coreference")->baseline, 1);
  EXPECT_EQ(observed.heads[0].find("coreference/before"), nullptr);
  EXPECT_EQ(observed.heads[0].find("coreference/after")->n, 1);
}

}  // namespace
}  // namespace headwise
