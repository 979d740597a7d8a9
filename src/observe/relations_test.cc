// Relations of words: by hand, and against a plain computation from stored maps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "headwise/core/parallel.h"
#include "observe/accuracy.h"
#include "observe/data_pass.h"
#include "observe/labelled_testing.h"
#include "observe/maps_in_parts.h"
#include "observe/real_offsets.h"

namespace headwise {
namespace {

/// The word that a word attends to most, by the definition: -1 if there is no other.
int64_t looked_at(const std::vector<std::vector<float>>& map, const std::vector<TreeWord>& words,
                  const std::vector<std::vector<int64_t>>& tokens, int64_t word) {
  int64_t best = -1;
  double most = -1;
  for (int64_t other = 0; other < std::ssize(words); ++other) {
    if (other == word || words[other].upos == "PUNCT" || tokens[other].empty()) continue;
    double mean = 0;
    for (const int64_t from : tokens[word]) {
      double sum = 0;
      for (const int64_t to : tokens[other]) sum += map[from][to];
      mean += sum / static_cast<double>(tokens[word].size());
    }
    if (mean > most) {
      most = mean;
      best = other;
    }
  }
  return best;
}

/// Tokens of words, each for the first word that has it.
std::vector<std::vector<int64_t>> tokens_of(const ObservedText& text) {
  std::vector<std::vector<int64_t>> tokens;
  std::set<int64_t> taken;
  for (const TreeWord& word : text.tree->words) {
    auto& own = tokens.emplace_back();
    for (int64_t t = 0; t < std::ssize(text.ids); ++t) {
      const TokenSpan bytes = text.encoding.bytes[t];
      if (text.encoding.special[t] != 0 || bytes.end <= word.bytes.begin ||
          bytes.begin >= word.bytes.end) {
        continue;
      }
      if (taken.insert(t).second) own.push_back(t);
    }
  }
  return tokens;
}

struct Expected {
  std::vector<std::vector<bool>> right;             // [items][heads]
  std::vector<std::vector<int64_t>> right_offsets;  // [items]

  Measure measure(int64_t head, size_t begin, size_t step) const {
    int64_t n = 0, hits = 0, best = 0;
    std::map<int64_t, int64_t> offsets;
    for (size_t i = begin; i < right.size(); i += step, ++n) {
      hits += right[i][head];
      for (const int64_t offset : right_offsets[i]) best = std::max(best, ++offsets[offset]);
    }
    return accuracy(hits, n, static_cast<double>(best) / static_cast<double>(n));
  }
};

std::map<std::string, Expected> expected_of(const Model& model, const ObservedCorpus& corpus) {
  std::map<std::string, Expected> all;
  for (const ObservedText& text : corpus.texts) {
    const SeenText seen = see(model, text);
    const std::vector<TreeWord>& words = text.tree->words;
    const auto tokens = tokens_of(text);
    const auto counts = [&](int64_t w) { return words[w].upos != "PUNCT" && !tokens[w].empty(); };
    for (int64_t w = 0; w < std::ssize(words); ++w) {
      if (!counts(w)) continue;
      std::map<std::string, std::set<int64_t>> answers;
      if (words[w].head >= 0) answers[words[w].relation + "/to_head"] = {words[w].head};
      for (int64_t d = 0; d < std::ssize(words); ++d) {
        if (counts(d) && words[d].head == w) answers[words[d].relation + "/to_dependent"].insert(d);
      }
      for (const auto& [name, right] : answers) {
        Expected& expected = all["relation/" + name];
        auto& hits = expected.right.emplace_back();
        for (int64_t h = 0; h < model.heads(); ++h) {
          hits.push_back(!seen.maps[h].empty() &&
                         right.contains(looked_at(seen.maps[h], words, tokens, w)));
        }
        auto& offsets = expected.right_offsets.emplace_back();
        for (const int64_t one : right) offsets.push_back(one - w);
      }
    }
  }
  return all;
}

class Relations : public testing::TestWithParam<std::string> {};

TEST_P(Relations, EqualAPlainComputationFromStoredMaps) {
  const Model model = load_golden_model(GetParam());
  const bool two = model.config().encoder_decoder();
  const ChanceTreebank treebank(60, two);
  const MetricContext context{.model = model, .corpus = treebank.corpus};
  const MetricResult observed = run_metric(context, relations_metric(context));
  const auto expected = expected_of(model, treebank.corpus);
  ASSERT_EQ(expected.size(), 6u);
  const std::vector<uint8_t> heads = heads_within_text(context);
  for (const auto& [name, of] : expected) {
    int64_t best = -1;
    for (int64_t h = 0; h < model.heads(); ++h) {
      const Measure* const measure = observed.heads[h].find(name);
      ASSERT_EQ(measure != nullptr, heads[h] != 0) << name << " " << h;
      if (measure == nullptr) continue;
      EXPECT_EQ(*measure, of.measure(h, 0, 1)) << name << " " << head_name(model, h);
      const double even = of.measure(h, 0, 2).value;
      if (best < 0 || even > of.measure(best, 0, 2).value) best = h;
    }
    const BestHead expected_best{head_name(model, best), of.measure(best, 0, 2),
                                 of.measure(best, 1, 2)};
    EXPECT_EQ(observed.evidence.best.at(name), expected_best) << name;
  }
  EXPECT_EQ(observed.evidence.best.size(), expected.size());
}

INSTANTIATE_TEST_SUITE_P(All, Relations,
                         testing::Values("bert", "bert_pruned", "llama", "llama_fixed", "mistral",
                                         "marian"),
                         [](const auto& info) { return info.param; });

TEST(RelationItems, AreTheSameForAnyBatchesAndThreads) {
  const Model model = load_golden_model("bert");
  const ChanceTreebank treebank(40, false);
  const MetricContext context{.model = model, .corpus = treebank.corpus};
  const MetricResult observed = run_metric(context, relations_metric(context));
  const int before = threads();
  set_threads(3);
  const MetricResult other = run_metric(context, relations_metric(context), 40);
  set_threads(before);
  EXPECT_EQ(observed.heads, other.heads);
  EXPECT_EQ(observed.evidence.best, other.evidence.best);
}

/// Parts of speech are learnt on one way through the texts, and tested on the next.
TEST(RelationItems, AreAskedOnceThoughOtherMetricsGoOn) {
  const Model model = load_golden_model("bert");
  const ChanceTreebank treebank(20, false);
  const MetricContext context{.model = model, .corpus = treebank.corpus};
  MetricResult together{.heads = std::vector<Measures>(model.heads())};
  run_data_pass(context, {DataPass::treebank}, {}, together.heads, together.evidence);
  const MetricResult relations = run_metric(context, relations_metric(context), 20);
  const MetricResult tags = run_metric(context, parts_of_speech_metric(context), 20);
  for (int64_t h = 0; h < model.heads(); ++h) {
    Measures expected = relations.heads[h];
    for (const auto& [name, measure] : tags.heads[h]) expected.add(name, measure);
    EXPECT_EQ(together.heads[h], expected) << head_name(model, h);
  }
  EXPECT_EQ(together.evidence.best, relations.evidence.best);
}

TEST(RelationItems, AreOfHeadsThatAreWantedAndKeptApartForProbes) {
  const Model model = load_golden_model("bert");
  const ChanceTreebank treebank(20, false);
  MetricContext context{.model = model, .corpus = treebank.corpus, .probes = true};
  context.wanted.assign(model.heads(), 0);
  context.wanted[6] = 1;
  const MetricResult observed = run_metric(context, relations_metric(context));
  EXPECT_TRUE(observed.heads[5].empty());
  EXPECT_NE(observed.heads[6].find("relation/det/to_head"), nullptr);
  EXPECT_TRUE(observed.evidence.best.empty());
  EXPECT_EQ(observed.evidence.best_probes.at("relation/det/to_head").head, "L1.H2");
}

/// As if words of probes were as far apart as in real text: against weights taken one by one.
TEST(RelationItems, OfProbesHaveTheDistancesOfRealText) {
  const Model model = load_golden_model("bert");
  const ChanceTreebank treebank(60, false);
  const MetricContext context{
      .model = model, .corpus = treebank.corpus, .probes = true, .as_far_apart = true};
  const MetricResult observed = run_metric(context, relations_metric(context));
  int weighted = 0;
  for (const auto& [name, of] : expected_of(model, treebank.corpus)) {
    const RealOffsets* const real = real_offsets(name.substr(name.find('/') + 1));
    if (real == nullptr) continue;
    ++weighted;
    std::vector<int64_t> nearest;
    for (const auto& offsets : of.right_offsets) {
      nearest.push_back(*std::ranges::min_element(
          offsets, {}, [](int64_t offset) { return std::pair(std::abs(offset), -offset); }));
    }
    const std::vector<int64_t> weights = offset_weights(*real, nearest);
    for (int64_t h = 0; h < model.heads(); ++h) {
      double right = 0, sum = 0, squares = 0;
      for (size_t i = 0; i < weights.size(); ++i) {
        const double weight = static_cast<double>(weights[i]) / kWeightOne;
        right += of.right[i][h] ? weight : 0;
        sum += weight;
        squares += weight * weight;
      }
      const Measure* const measure = observed.heads[h].find(name);
      ASSERT_NE(measure, nullptr);
      EXPECT_NEAR(measure->value, right, 1e-9) << name << " " << head_name(model, h);
      EXPECT_EQ(measure->n, std::llround(sum * sum / squares));
      EXPECT_EQ(measure->baseline, real->best / 10000.);
    }
  }
  EXPECT_GE(weighted, 4);
}

/// llama_fixed: L0.H1 attends to the previous token.
TEST(RelationItems, OfFixedHeadsAreWhatTheirPatternsSay) {
  const Model model = load_golden_model("llama_fixed");
  PiecedText pieces(1);
  TreeSentence tree;
  const std::vector<std::pair<const char*, int64_t>> words = {
      {"NOUN", 1}, {"DET", 2}, {"VERB", 1}, {"PUNCT", 1}, {"ADV", 2}};
  for (const auto& [tag, count] : words) {
    tree.words.push_back({.upos = tag, .bytes = pieces.add(count)});
  }
  tree.words[0] = {.upos = "NOUN", .relation = "nsubj", .head = 2, .bytes = tree.words[0].bytes};
  tree.words[1] = {.upos = "DET", .relation = "det", .head = 0, .bytes = tree.words[1].bytes};
  tree.words[2] = {.upos = "VERB", .relation = "root", .head = -1, .bytes = tree.words[2].bytes};
  tree.words[3] = {.upos = "PUNCT", .relation = "punct", .head = 2, .bytes = tree.words[3].bytes};
  tree.words[4] = {.upos = "ADV", .relation = "advmod", .head = 2, .bytes = tree.words[4].bytes};
  tree.text = pieces.text();
  ObservedCorpus corpus{.texts = {pieces.finish(false)}};
  corpus.texts[0].tree = &tree;
  const MetricContext context{.model = model, .corpus = corpus};
  const MetricResult observed = run_metric(context, relations_metric(context));
  const HeadIndex found = model.find_heads("L0.H1").front();
  const int64_t previous = model.attentions()[found.site].first + found.index;
  const auto value = [&](const std::string& name) {
    return observed.heads[previous].find("relation/" + name)->value;
  };
  EXPECT_EQ(value("det/to_head"), 1);         // the word before it
  EXPECT_EQ(value("nsubj/to_head"), 0);       // sees no other word: the first one of them
  EXPECT_EQ(value("nsubj/to_dependent"), 0);  // the word before is a determiner
  EXPECT_EQ(value("det/to_dependent"), 1);    // no weight anywhere: the first of the other words
  EXPECT_EQ(value("advmod/to_dependent"), 0);
  EXPECT_EQ(value("advmod/to_head"), 0);  // half its weight is on a mark, and half on itself
  EXPECT_EQ(observed.heads[previous].find("relation/root/to_head"), nullptr);
  EXPECT_EQ(observed.heads[previous].find("relation/punct/to_head"), nullptr);
  EXPECT_EQ(observed.heads[previous].find("relation/punct/to_dependent"), nullptr);
  EXPECT_EQ(observed.heads[previous].find("relation/advmod/to_head")->baseline, 1);
  EXPECT_TRUE(observed.evidence.best.empty());  // one item of each has no second half
}

/// Asks for the maps of all rows in parts.
struct MapsInParts : ForwardObserver {
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2>) override {
    if (site.side != Side::encoder) return;
    std::vector<int64_t> rows(z.extent(0));
    std::iota(rows.begin(), rows.end(), 0);
    int64_t next = 0;
    maps_in_parts(layer, attention, rows, [&](int64_t begin, int64_t end, const auto& maps) {
      EXPECT_EQ(begin, next);
      EXPECT_LE(std::ssize(maps.weights), kMapNumbers);
      EXPECT_EQ(maps.weights,
                layer.maps(attention, std::span(rows).subspan(begin, end - begin)).weights);
      next = end;
      ++parts;
    });
    EXPECT_EQ(next, std::ssize(rows));
  }
  int parts = 0;
};

/// The maps of its second word are more than is held at once.
TEST(RelationItems, OfALongWordEqualAPlainComputationFromStoredMaps) {
  const Model model = load_golden_model("t5");
  PiecedText pieces(3);
  TreeSentence tree;
  const std::vector<std::pair<int64_t, int64_t>> words = {{2, 1}, {1100, -1}, {3, 1}, {1, 2}};
  for (const auto& [count, head] : words) {
    tree.words.push_back(
        {.upos = "NOUN", .relation = "obj", .head = head, .bytes = pieces.add(count)});
  }
  tree.text = pieces.text();
  ObservedCorpus corpus{.texts = {pieces.finish(true)}};
  corpus.texts[0].tree = &tree;
  const MetricContext context{.model = model, .corpus = corpus};
  const MetricResult observed = run_metric(context, relations_metric(context));
  const std::vector<uint8_t> heads = heads_within_text(context);
  for (const auto& [name, expected] : expected_of(model, corpus)) {
    for (int64_t h = 0; h < model.heads(); ++h) {
      if (heads[h] == 0) continue;
      EXPECT_EQ(*observed.heads[h].find(name), expected.measure(h, 0, 1)) << name << " " << h;
    }
  }
  MapsInParts maps;
  TokenBatch batch;
  batch.add(corpus.texts[0].ids);
  (void)model.forward(batch, {.observer = &maps});
  EXPECT_EQ(maps.parts, 2 * model.config().encoder.layers());
}

TEST(RelationItems, AreNoneWithoutTrees) {
  const Model model = load_golden_model("bert");
  ChanceTreebank treebank(2, false);
  for (ObservedText& text : treebank.corpus.texts) text.tree = nullptr;
  const MetricContext context{.model = model, .corpus = treebank.corpus};
  EXPECT_EQ(relations_metric(context), nullptr);
  EXPECT_EQ(parts_of_speech_metric(context), nullptr);
  EXPECT_EQ(coreference_metric(context), nullptr);
}

}  // namespace
}  // namespace headwise
