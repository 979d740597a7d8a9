// Metrics of the built-in probes against plain loops over the maps of small models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "golden/folder.h"
#include "headwise/core/parallel.h"
#include "observe/accuracy.h"
#include "observe/labelled_testing.h"
#include "observe/repeated.h"

namespace headwise {
namespace {

Tokenizer golden_tokenizer(const std::string& name) {
  return Tokenizer::load(golden_folder() / "text/tokenizers" / name);
}

/// Two letters of a word are a token; the text is wrapped in special tokens.
ObservedText observed(const std::string& text, const Model& model) {
  Encoding result;
  const auto add = [&](int64_t id, bool special, TokenSpan bytes) {
    result.ids.push_back(static_cast<int32_t>(id % model.config().vocabulary));
    result.special.push_back(special ? 1 : 0);
    result.sequence.push_back(special ? -1 : 0);
    result.bytes.push_back(bytes);
  };
  const int64_t n = std::ssize(text);
  add(1, true, {});
  for (int64_t at = 0, end; at < n; at = end) {
    end = at + 1;
    if (text[at] == ' ') continue;
    if (end < n && text[end] != ' ') ++end;
    add(text[at] * 7 + (end > at + 1 ? text[at + 1] : 0), false, {at, end});
  }
  add(2, true, {});
  ObservedText observed{.ids = result.ids, .encoding = result};
  if (model.config().encoder_decoder()) observed.decoder_ids = {1, 5, 4};
  return observed;
}

/// Hits, rows and chance of every head, as the definition reads.
struct Plain {
  double hits = 0, n = 0, chance = 0;

  void add(bool hit, int right, int candidates) {
    hits += hit;
    n += 1;
    chance += right / static_cast<double>(candidates);
  }
};

void expect_measure(const Measures& measures, const char* name, const Plain& plain) {
  const Measure* measure = measures.find(name);
  if (plain.n == 0) {
    EXPECT_EQ(measure, nullptr);
    return;
  }
  ASSERT_NE(measure, nullptr);
  EXPECT_EQ(measure->n, plain.n);
  EXPECT_DOUBLE_EQ(measure->value, plain.hits / plain.n);
  EXPECT_NEAR(measure->baseline.value(), plain.chance / plain.n, 1e-12);
  EXPECT_EQ(measure->interval, accuracy(std::lround(plain.hits), measure->n).interval);
}

class ProbeMetrics : public testing::TestWithParam<const char*> {};

TEST_P(ProbeMetrics, CountRowsThatLookAtTheRareWord) {
  const Model model = load_golden_model(GetParam());
  const std::vector<RareItem> items = {{.text = "ab quokka cd ef", .word = {3, 9}},
                                       {.text = "gh ij zither", .word = {6, 12}},
                                       {.text = "tapir kl mn", .word = {0, 5}},
                                       {.text = "op qr", .word = {5, 5}}};
  const std::vector<std::vector<int64_t>> rare = {{2, 3, 4}, {3, 4, 5}, {1, 2, 3}, {}};
  ObservedCorpus corpus;
  for (const RareItem& item : items) {
    corpus.texts.push_back(observed(item.text, model));
    corpus.texts.back().rare = &item;
  }
  const MetricContext context{.model = model, .corpus = corpus};
  const MetricResult observed = run_metric(context, rare_probe_metric(context));
  EXPECT_EQ(field_probe_metric(context), nullptr);

  std::vector<Plain> plain(model.heads());
  for (size_t text = 0; text < items.size(); ++text) {
    const auto is_rare = [&](size_t i) { return std::ranges::count(rare[text], i) > 0; };
    const SeenText seen = see(model, corpus.texts[text]);
    for (int64_t head = 0; head < model.heads(); ++head) {
      const auto& map = seen.maps[head];
      for (size_t i = 0; i < map.size(); ++i) {
        if (is_rare(i)) continue;
        int candidates = 0, right = 0;
        size_t largest = 0;
        for (size_t j = 1; j + 1 < map.size(); ++j) {  // without the special tokens
          if (map[i][j] == 0) continue;                // not seen
          ++candidates;
          right += is_rare(j);
          if (largest == 0 || map[i][j] > map[i][largest]) largest = j;
        }
        if (right > 0) plain[head].add(is_rare(largest), right, candidates);
      }
    }
  }
  for (int64_t h = 0; h < model.heads(); ++h) {
    expect_measure(observed.heads[h], "rare_word", plain[h]);
  }
}

TEST_P(ProbeMetrics, CountWordsThatLookAtTheirField) {
  const Model model = load_golden_model(GetParam());
  const std::vector<FieldItem> items = {{.text = "pear saw fig axe",
                                         .words = {{0, 4}, {5, 8}, {9, 12}, {13, 16}},
                                         .fields = {"fruit", "tool", "fruit", "tool"}},
                                        {.text = "an axe pear rake plum",
                                         .words = {{3, 6}, {7, 11}, {12, 16}, {17, 21}},
                                         .fields = {"tool", "fruit", "tool", "fruit"}},
                                        {.text = "saw axe fig",
                                         .words = {{0, 3}, {4, 7}, {8, 11}},
                                         .fields = {"tool", "tool", "fruit"}}};
  const std::vector<std::vector<int64_t>> first = {{1, 3, 5, 7}, {2, 4, 6, 8}, {1, 3, 5}};
  ObservedCorpus corpus;
  for (const FieldItem& item : items) {
    corpus.texts.push_back(observed(item.text, model));
    corpus.texts.back().field = &item;
  }
  const MetricContext context{.model = model, .corpus = corpus};
  const MetricResult observed = run_metric(context, field_probe_metric(context));
  EXPECT_EQ(rare_probe_metric(context), nullptr);

  std::vector<Plain> plain(model.heads());
  for (size_t text = 0; text < items.size(); ++text) {
    const std::vector<std::string>& fields = items[text].fields;
    const SeenText seen = see(model, corpus.texts[text]);
    for (int64_t head = 0; head < model.heads(); ++head) {
      const auto& map = seen.maps[head];
      for (size_t from = 0; from < fields.size() && !map.empty(); ++from) {
        const int64_t i = first[text][from];  // every word has two tokens
        int candidates = 0, right = 0;
        double largest = -1;
        bool hit = false;
        for (size_t to = 0; to < fields.size(); ++to) {
          const int64_t j = first[text][to];
          if (to == from || map[i + 1][j] + map[i + 1][j + 1] == 0) continue;
          ++candidates;
          right += fields[from] == fields[to];
          double weight = 0;
          for (const int64_t row : {i, i + 1}) weight += double{map[row][j]} + map[row][j + 1];
          if (weight <= largest) continue;
          largest = weight;
          hit = fields[from] == fields[to];
        }
        if (right > 0 && right < candidates) plain[head].add(hit, right, candidates);
      }
    }
  }
  for (int64_t h = 0; h < model.heads(); ++h) {
    expect_measure(observed.heads[h], "same_field", plain[h]);
  }
}

// Both sides seen, causal, a causal window, fixed heads, heads pruned, learned biases, two sides.
INSTANTIATE_TEST_SUITE_P(Models, ProbeMetrics,
                         testing::Values("bert", "llama", "mistral", "bert_fixed", "bert_pruned",
                                         "mpnet", "marian"),
                         [](const auto& info) { return info.param; });

TEST(ProbeMetricsThreads, DoNotMatter) {
  const Model model = load_golden_model("bert");
  const RareItem item{.text = "ab quokka cd ef", .word = {3, 9}};
  ObservedCorpus corpus;
  corpus.texts = {observed(item.text, model)};
  corpus.texts[0].rare = &item;
  const MetricContext context{.model = model, .corpus = corpus};
  const int before = threads();
  std::vector<std::vector<Measures>> results;
  for (const int count : {1, 3}) {
    set_threads(count);
    results.push_back(run_metric(context, rare_probe_metric(context)).heads);
  }
  set_threads(before);
  EXPECT_EQ(results[0], results[1]);
}

/// The maps of all self attention, [head][row][key].
struct AllMaps : ForwardObserver {
  explicit AllMaps(int64_t heads) : maps(heads) {}
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2>) override {
    if (site.kind == AttentionKind::cross) return;
    std::vector<int64_t> rows(z.extent(0));
    std::iota(rows.begin(), rows.end(), 0);
    const AttentionMaps all = layer.maps(attention, rows);
    for (size_t h = 0; h < site.heads.size(); ++h) {
      for (const int64_t row : rows) {
        const auto weights = all.row(row, static_cast<int64_t>(h));
        maps[site.first + h].emplace_back(weights.begin(), weights.end());
      }
    }
  }
  std::vector<std::vector<std::vector<float>>> maps;
};

class Repetition : public testing::TestWithParam<const char*> {};

TEST_P(Repetition, IsObservedInTheSecondHalf) {
  const Model model = load_golden_model(GetParam());
  const RepeatedSequences sequences = repeated_sequences(model.config(), nullptr, 3, 7, 3);
  ASSERT_EQ(sequences.length, 7);
  ObservedCorpus corpus;
  for (size_t i = 0; i < sequences.ids.size(); ++i) {
    corpus.texts.push_back({.ids = sequences.ids[i]});
    if (model.config().encoder_decoder()) corpus.texts[i].decoder_ids = sequences.decoder_ids[i];
  }
  const MetricContext context{.model = model, .corpus = corpus};
  const MetricResult observed = run_metric(context, repetition_metric(context), 2);
  EXPECT_TRUE(observed.evidence.options.contains("repeated_length"));

  std::vector<std::array<double, 3>> sums(model.heads());
  for (const ObservedText& text : corpus.texts) {
    AllMaps seen(model.heads());
    TokenBatch source, target;
    source.add(text.ids);
    if (!text.decoder_ids.empty()) target.add(text.decoder_ids);
    if (target.sequences() > 0) {
      model.forward(source, target, {.observer = &seen});
    } else {
      model.forward(source, {.observer = &seen});
    }
    for (int64_t head = 0; head < model.heads(); ++head) {
      const auto& map = seen.maps[head];
      for (size_t i = map.size() < 7 ? 0 : map.size() - 7; i < map.size(); ++i) {
        sums[head][0] += map[i][i - 6];
        sums[head][1] += map[i][i - 7];
        sums[head][2] += map[i][i - 1];
      }
    }
  }
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t h = site.first; h < site.first + std::ssize(site.heads); ++h) {
      EXPECT_EQ(observed.heads[h].empty(), site.kind == AttentionKind::cross);
      if (observed.heads[h].empty()) continue;
      const char* const names[] = {"induction", "duplicate", "previous_on_random"};
      for (int m = 0; m < 3; ++m) {
        const Measure* const measure = observed.heads[h].find(names[m]);
        EXPECT_NEAR(measure->value, sums[h][m] / 21, 1e-12);
        EXPECT_EQ(measure->n, 21);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Repetition,
                         testing::Values("bert", "llama", "gpt2", "gpt2_pruned", "marian", "t5"),
                         [](const auto& info) { return info.param; });

ModelConfig config_of(int64_t vocabulary, bool decoder) {
  ModelConfig config;
  config.vocabulary = config.decoder_vocabulary = vocabulary;
  (decoder ? config.decoder : config.encoder).attention.resize(1);
  return config;
}

TEST(RepeatedSequences, AreWrappedAsTheTokenizerDoes) {
  struct Case {
    const char* tokenizer;
    bool decoder;
    std::vector<std::string> before, after;
  };
  for (const Case& one :
       {Case{"bert-uncased", false, {"[CLS]"}, {"[SEP]"}},
        Case{"roberta", false, {"<s>"}, {"</s>"}}, Case{"t5", false, {}, {"</s>"}},
        Case{"llama2", true, {"<s>"}, {}}, Case{"gpt2", true, {"<|endoftext|>"}, {}}}) {
    SCOPED_TRACE(one.tokenizer);
    const Tokenizer tokenizer = golden_tokenizer(one.tokenizer);
    const auto ids = [&](const std::vector<std::string>& tokens) {
      std::vector<int32_t> result;
      for (const std::string& token : tokens) result.push_back(tokenizer.id(token).value());
      return result;
    };
    const ModelConfig config = config_of(tokenizer.size(), one.decoder);
    const Wrapping wrapping = usual_wrapping(config, &tokenizer);
    EXPECT_EQ(wrapping.before, ids(one.before));
    EXPECT_EQ(wrapping.after, ids(one.after));

    const RepeatedSequences sequences = repeated_sequences(config, &tokenizer, 0);
    EXPECT_EQ(sequences.length, kRepeatedLength);
    ASSERT_EQ(std::ssize(sequences.ids), kRepeatedCount);
    const int64_t first = std::ssize(one.before), k = kRepeatedLength;
    for (const std::vector<int32_t>& sequence : sequences.ids) {
      ASSERT_EQ(std::ssize(sequence), first + 2 * k + std::ssize(one.after));
      for (int64_t i = first; i < first + k; ++i) {
        EXPECT_EQ(sequence[i], sequence[i + k]);
        EXPECT_FALSE(tokenizer.is_special(sequence[i]));
        EXPECT_FALSE(tokenizer.token(sequence[i]).empty());
      }
      std::vector<int32_t> drawn(sequence.begin() + first, sequence.begin() + first + k);
      std::ranges::sort(drawn);
      EXPECT_EQ(std::ranges::adjacent_find(drawn), drawn.end());
    }
    EXPECT_NE(sequences.ids[0], sequences.ids[1]);
    EXPECT_EQ(sequences.ids, repeated_sequences(config, &tokenizer, 0).ids);
    EXPECT_NE(sequences.ids, repeated_sequences(config, &tokenizer, 1).ids);
  }
}

TEST(RepeatedSequences, AreShorterForFewPositions) {
  const Tokenizer tokenizer = golden_tokenizer("bert-uncased");
  ModelConfig config = config_of(tokenizer.size(), false);
  config.max_positions = 19;
  EXPECT_EQ(repeated_sequences(config, &tokenizer, 0).length, 8);
  EXPECT_EQ(repeated_sequences(config, &tokenizer, 0).ids[0].size(), 18u);
  config.max_positions = 5;
  EXPECT_EQ(repeated_sequences(config, &tokenizer, 0).length, 0);
  EXPECT_TRUE(repeated_sequences(config, &tokenizer, 0).ids.empty());
}

TEST(RepeatedSequences, TakeTokensAgainWhereThereAreFew) {
  ModelConfig config = config_of(4, true);
  config.bos = 0;
  config.eos = {1};
  const RepeatedSequences sequences = repeated_sequences(config, nullptr, 0);
  EXPECT_EQ(sequences.length, kRepeatedLength);
  EXPECT_EQ(sequences.ids[0][0], 0);
  for (size_t i = 1; i < sequences.ids[0].size(); ++i) EXPECT_GE(sequences.ids[0][i], 2);
}

}  // namespace
}  // namespace headwise
