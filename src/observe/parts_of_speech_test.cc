// Parts of speech from what heads give, against a plain fit of stored rows.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "headwise/core/parallel.h"
#include "headwise/core/seed.h"
#include "observe/accuracy.h"
#include "observe/labelled_testing.h"

namespace headwise {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// a x = b by Gaussian elimination with pivots.
Matrix solved(Matrix a, Matrix b) {
  const size_t n = a.size();
  for (size_t i = 0; i < n; ++i) {
    size_t pivot = i;
    for (size_t r = i; r < n; ++r) {
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    }
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double times = a[r][i] / a[i][i];
      for (size_t c = 0; c < n; ++c) a[r][c] -= times * a[i][c];
      for (size_t c = 0; c < b[r].size(); ++c) b[r][c] -= times * b[i][c];
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (double& one : b[i]) one /= a[i][i];
  }
  return b;
}

struct Sample {
  std::vector<double> x{};  // ends with 1
  int64_t tag = 0;
};

/// How many of `test` a classifier is right about that is fit to `train`; the bias is not punished.
int64_t hits(const std::vector<Sample>& train, const std::vector<Sample>& test, int64_t tags) {
  const size_t D = train[0].x.size();
  Matrix a(D, std::vector<double>(D)), b(D, std::vector<double>(tags));
  std::vector<double> mean(D);
  for (const Sample& s : train) {
    for (size_t i = 0; i < D; ++i) {
      mean[i] += s.x[i] / static_cast<double>(train.size());
      for (size_t j = 0; j < D; ++j) a[i][j] += s.x[i] * s.x[j];
      b[i][s.tag] += s.x[i];
    }
  }
  double variance = 0;
  for (const Sample& s : train) {
    for (size_t i = 0; i + 1 < D; ++i) variance += std::pow(s.x[i] - mean[i], 2);
  }
  for (size_t i = 0; i + 1 < D; ++i) a[i][i] += 0.01 * variance / static_cast<double>(D - 1);
  const Matrix w = solved(a, b);
  int64_t right = 0;
  for (const Sample& s : test) {
    std::vector<double> values(tags);
    for (int64_t t = 0; t < tags; ++t) {
      for (size_t i = 0; i < D; ++i) values[t] += s.x[i] * w[i][t];
    }
    right += std::ranges::max_element(values) - values.begin() == s.tag;
  }
  return right;
}

class PartsOfSpeech : public testing::TestWithParam<std::string> {};

TEST_P(PartsOfSpeech, EqualAPlainFit) {
  const Model model = load_golden_model(GetParam());
  const ChanceTreebank treebank(80, model.config().encoder_decoder());
  const MetricContext context{.model = model, .corpus = treebank.corpus, .seed = 11};
  const MetricResult observed = run_metric(context, parts_of_speech_metric(context));

  // Words that count, and the tags that are drawn for forms in the order in which they appear.
  const std::vector<std::string> tags = {"DET", "NOUN", "PUNCT", "VERB"};
  std::vector<std::vector<TokenSpan>> tokens;
  std::vector<std::string> forms;
  std::vector<int64_t> words_of(tags.size());
  for (size_t s = 0; s < treebank.trees.size(); ++s) {
    std::vector<TokenSpan> bytes;
    for (const TreeWord& word : treebank.trees[s].words) bytes.push_back(word.bytes);
    tokens.push_back(tokens_of_spans(treebank.corpus.texts[s].encoding, bytes));
    for (size_t w = 0; w < bytes.size(); ++w) {
      const TreeWord& word = treebank.trees[s].words[w];
      const auto tag = std::ranges::find(tags, word.upos) - tags.begin();
      if (tag == 4 || tokens[s][w].begin == tokens[s][w].end) continue;
      ++words_of[tag];
      if (std::ranges::find(forms, word.form) == forms.end()) forms.push_back(word.form);
    }
  }
  Random random(derived_seed(11, 0, 0, 0x7a65));
  std::map<std::string, int64_t> drawn;
  int64_t words = 0;
  for (const int64_t count : words_of) words += count;
  for (const std::string& form : forms) {
    int64_t left = random.below(static_cast<uint32_t>(words)), tag = 0;
    for (; left >= words_of[tag]; ++tag) left -= words_of[tag];
    drawn[form] = tag;
  }

  std::vector<SeenText> seen;
  for (const ObservedText& text : treebank.corpus.texts) seen.push_back(see(model, text));
  const std::vector<uint8_t> heads = heads_within_text(context);
  for (int64_t h = 0; h < model.heads(); ++h) {
    const Measure* const upos = observed.heads[h].find("upos");
    ASSERT_EQ(upos != nullptr, heads[h] != 0) << h;
    if (upos == nullptr) continue;
    std::vector<Sample> samples[2][2];  // by half; with tags, with drawn ones
    for (size_t s = 0; s < seen.size(); ++s) {
      for (size_t w = 0; w < tokens[s].size(); ++w) {
        const TreeWord& word = treebank.trees[s].words[w];
        const auto tag = std::ranges::find(tags, word.upos) - tags.begin();
        if (tag == 4) continue;
        for (int64_t t = tokens[s][w].begin; t < tokens[s][w].end; ++t) {
          std::vector<double> x(seen[s].z[h][t].begin(), seen[s].z[h][t].end());
          x.push_back(1);
          samples[s % 2][0].push_back({x, tag});
          samples[s % 2][1].push_back({x, drawn[word.form]});
        }
      }
    }
    const auto n = std::ssize(samples[1][0]);
    std::vector<int64_t> train(4), test(4);
    for (const Sample& one : samples[0][0]) ++train[one.tag];
    for (const Sample& one : samples[1][0]) ++test[one.tag];
    const double baseline =
        static_cast<double>(test[std::ranges::max_element(train) - train.begin()]) /
        static_cast<double>(n);
    const int64_t right = hits(samples[0][0], samples[1][0], 4);
    EXPECT_EQ(*upos, accuracy(right, n, baseline)) << head_name(model, h);
    const int64_t control = hits(samples[0][1], samples[1][1], 4);
    EXPECT_DOUBLE_EQ(observed.heads[h].find("upos_selectivity")->value,
                     static_cast<double>(right - control) / static_cast<double>(n))
        << head_name(model, h);
  }
  const int before = threads();
  set_threads(3);
  EXPECT_EQ(run_metric(context, parts_of_speech_metric(context)).heads, observed.heads);
  set_threads(before);
}

INSTANTIATE_TEST_SUITE_P(All, PartsOfSpeech,
                         testing::Values("bert", "llama", "llama_fixed", "marian"),
                         [](const auto& info) { return info.param; });

TEST(PartsOfSpeechItems, NeedBothHalvesAndARealTreebank) {
  const Model model = load_golden_model("bert");
  const ChanceTreebank one(1, false), many(10, false);
  EXPECT_EQ(parts_of_speech_metric({.model = model, .corpus = one.corpus}), nullptr);
  EXPECT_EQ(parts_of_speech_metric({.model = model, .corpus = many.corpus, .probes = true}),
            nullptr);
}

}  // namespace
}  // namespace headwise
