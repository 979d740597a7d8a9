// Heads of two models: js against stored maps, and matches that are known beforehand.
#include "headwise/observe/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "golden/folder.h"
#include "headwise/core/error.h"
#include "observe/metric_testing.h"
#include "observe/small_bert_testing.h"

namespace headwise::tests {
namespace {

using ::testing::HasSubstr;

constexpr double kMatchTolerance = 1e-5;  // absolute and relative

ObservedCorpus drawn_corpus(const Model& model, const std::vector<int64_t>& lengths) {
  const bool two = model.config().encoder_decoder();
  const TokenBatch source = drawn_texts(lengths), target = drawn_texts(lengths, 2);
  ObservedCorpus corpus;
  for (size_t b = 0; b < lengths.size(); ++b) {
    const auto part = [&](const TokenBatch& batch) {
      return std::vector<int32_t>(batch.ids.begin() + batch.offsets[b],
                                  batch.ids.begin() + batch.offsets[b + 1]);
    };
    ObservedText& text = corpus.texts.emplace_back();
    text.ids = part(source);
    if (two) text.decoder_ids = part(target);
  }
  return corpus;
}

/// All weights of all heads, row after row: [head][row][key].
class StoredMaps : public ForwardObserver {
 public:
  StoredMaps(const Model& model, const ObservedCorpus& corpus) {
    for (const ObservedText& text : corpus.texts) {
      TokenBatch source, target;
      source.add(text.ids);
      const ForwardOptions options{.observer = this};
      if (text.decoder_ids.empty()) {
        (void)model.forward(source, options);
      } else {
        target.add(text.decoder_ids);
        (void)model.forward(source, target, options);
      }
    }
  }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3>, View<const float, 2>) override {
    std::vector<int64_t> rows(attention.q.extent(0));
    std::iota(rows.begin(), rows.end(), 0);
    const AttentionMaps stored = layer.maps(attention, rows);
    for (int64_t h = 0; h < stored.heads; ++h) {
      for (const int64_t row : rows) {
        const auto weights = stored.row(row, h);
        maps[site.head_name(h)].emplace_back(weights.begin(), weights.end());
      }
    }
  }

  std::map<std::string, std::vector<std::vector<double>>> maps;
};

double js(const std::vector<std::vector<double>>& p, const std::vector<std::vector<double>>& q) {
  double sum = 0;
  for (size_t t = 0; t < p.size(); ++t) {
    for (size_t j = 0; j < p[t].size(); ++j) {
      const double m = (p[t][j] + q[t][j]) / 2;
      for (const double x : {p[t][j], q[t][j]}) sum += x > 0 ? x * std::log(x / m) / 2 : 0;
    }
  }
  return sum / static_cast<double>(p.size());
}

/// Their heads, and the least sum of js over all assignments, by trying each.
void expect_plain(const LayerMatch& layer, const StoredMaps& a, const StoredMaps& b,
                  const std::vector<std::string>& heads_a,
                  const std::vector<std::string>& heads_b) {
  double all = 0, sum = 0;
  for (const std::string& x : heads_a) {
    for (const std::string& y : heads_b) all += js(a.maps.at(x), b.maps.at(y));
  }
  EXPECT_NEAR(layer.random_mean, all / static_cast<double>(heads_a.size() * heads_b.size()),
              kMatchTolerance);
  for (const HeadMatch& match : layer.matches) {
    const double expected = js(a.maps.at(match.a), b.maps.at(match.b));
    EXPECT_NEAR(match.js, expected, kMatchTolerance * (1 + expected)) << match.a << ' ' << match.b;
    sum += match.js;
  }
  EXPECT_NEAR(layer.mean, sum / static_cast<double>(layer.matches.size()), 1e-12);
  ASSERT_EQ(heads_a.size(), heads_b.size());
  double least = 1e300;
  std::vector<size_t> order(heads_b.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    double one = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      one += js(a.maps.at(heads_a[i]), b.maps.at(heads_b[order[i]]));
    }
    least = std::min(least, one);
  } while (std::ranges::next_permutation(order).found);
  EXPECT_NEAR(sum, least, kMatchTolerance * (1 + least));
}

std::vector<std::string> heads_of(const Model& model, const std::string& layer) {
  std::vector<std::string> heads;
  for (const AttentionSite& site : model.attentions()) {
    if (layer != site.name && layer != "all") continue;
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) heads.push_back(site.head_name(h));
  }
  return heads;
}

TEST(Match, EqualsThatOfStoredMaps) {
  SmallBert first({.width = 12, .heads = 3, .layers = 2}),
      second({.width = 24, .heads = 3, .layers = 2});
  const Model a = first.load(), b = second.load();
  const ObservedCorpus corpus = drawn_corpus(a, {14, 1, 30});
  const StoredMaps stored_a(a, corpus), stored_b(b, corpus);
  for (const bool across : {false, true}) {
    const ModelMatch match = match_heads(a, b, corpus, {.across = across});
    ASSERT_EQ(match.layers.size(), across ? 1u : 2u);
    double mean = 0, random_mean = 0;
    for (const LayerMatch& layer : match.layers) {
      expect_plain(layer, stored_a, stored_b, heads_of(a, layer.layer), heads_of(b, layer.layer));
      EXPECT_EQ(layer.matches.size(), heads_of(a, layer.layer).size());
      mean += layer.mean / static_cast<double>(match.layers.size());
      random_mean += layer.random_mean / static_cast<double>(match.layers.size());
    }
    EXPECT_NEAR(match.mean, mean, 1e-12);
    EXPECT_NEAR(match.random_mean, random_mean, 1e-12);
  }
}

TEST(Match, AModelWithItselfIsTheIdentity) {
  for (const char* const name : {"bert", "llama", "gpt2_mixed", "mpnet", "bert_fixed",
                                 "llama_rope_dynamic", "marian_mixed", "t5", "bert_pruned"}) {
    SCOPED_TRACE(name);
    const Model model = load_golden_model(name);
    const ObservedCorpus corpus = drawn_corpus(model, {14, 6, 17});
    for (const bool across : {false, true}) {
      const ModelMatch match = match_heads(model, model, corpus, {.across = across});
      int64_t heads = 0;
      for (const LayerMatch& layer : match.layers) {
        for (const HeadMatch& pair : layer.matches) {
          EXPECT_NEAR(pair.js, 0, 1e-6) << pair.a;
          if (layer.random_mean > 1e-3 && std::string(name) != "bert_fixed") {
            EXPECT_EQ(pair.a, pair.b);
          }
          ++heads;
        }
      }
      EXPECT_EQ(heads, model.heads());
      EXPECT_NEAR(match.mean, 0, 1e-6);
      EXPECT_GT(match.random_mean, 1e-3);
    }
  }
}

TEST(Match, FindsHeadsThatHaveMoved) {
  SmallBert bert({.width = 16, .heads = 4, .layers = 2});
  const Model before = bert.load();
  for (const char* part : kProjections) {  // 0 -> 2 -> 3 -> 0 in the last layer
    swap(bert.head(1, part, 0), bert.head(1, part, 2));
    swap(bert.head(1, part, 0), bert.head(1, part, 3));
  }
  const Model after = bert.load();
  const ObservedCorpus corpus = drawn_corpus(before, {20, 7});
  const std::map<std::string, std::string> moved = {
      {"L1.H0", "L1.H2"}, {"L1.H2", "L1.H3"}, {"L1.H3", "L1.H0"}};
  for (const bool across : {false, true}) {
    for (const LayerMatch& layer : match_heads(before, after, corpus, {.across = across}).layers) {
      for (const HeadMatch& pair : layer.matches) {
        const auto to = moved.find(pair.a);
        EXPECT_EQ(pair.b, to == moved.end() ? pair.a : to->second);
        EXPECT_NEAR(pair.js, 0, 1e-6);
      }
    }
  }
}

TEST(Match, TakesAsManyAsTheSmallerLayerHas) {
  const Model whole = load_golden_model("bert"), pruned = load_golden_model("bert_pruned");
  const ObservedCorpus corpus = drawn_corpus(whole, {12, 9});
  const ModelMatch match = match_heads(pruned, whole, corpus),
                   back = match_heads(whole, pruned, corpus);
  int64_t heads = 0, heads_back = 0;
  for (const LayerMatch& layer : match.layers) heads += std::ssize(layer.matches);
  for (const LayerMatch& layer : back.layers) heads_back += std::ssize(layer.matches);
  EXPECT_EQ(heads, pruned.heads());
  EXPECT_EQ(heads_back, pruned.heads());
  EXPECT_NEAR(match.mean, back.mean, 1e-6);
}

TEST(Match, RefusesModelsThatCannotReadTheSame) {
  const Model bert = load_golden_model("bert"), marian = load_golden_model("marian");
  const ObservedCorpus corpus = drawn_corpus(bert, {8});
  const auto what = [&](const ObservedCorpus& texts, const Model& other) {
    return error_of([&] { (void)match_heads(bert, other, texts); }).what;
  };
  EXPECT_THAT(what(corpus, marian), HasSubstr("cannot read the same texts"));
  EXPECT_THAT(what({}, bert), HasSubstr("no texts"));
  ObservedCorpus wrong = corpus;
  wrong.texts[0].ids[3] = 1 << 20;
  EXPECT_THAT(what(wrong, bert), HasSubstr("not in the vocabulary"));
  wrong.texts[0].ids.assign(10000, 1);
  EXPECT_THAT(what(wrong, bert), HasSubstr("longer than"));
}

TEST(Match, TokensMustBeTheSame) {
  const auto tokenizers = golden_folder() / "text" / "tokenizers";
  std::vector<std::filesystem::path> folders;
  for (const auto& entry : std::filesystem::directory_iterator(tokenizers)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  ASSERT_GE(folders.size(), 2u);
  const Tokenizer a = Tokenizer::load(folders.front()), b = Tokenizer::load(folders.back());
  check_same_tokens(a, a, "a");
  const ErrorDetail detail = error_of([&] { check_same_tokens(a, b, "b"); });
  EXPECT_EQ(detail.what, "the models do not have the same tokens");
  EXPECT_EQ(detail.where, "b");
}

}  // namespace
}  // namespace headwise::tests
