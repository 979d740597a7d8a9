// upos: how much of a word's part of speech can be read off what a head gives.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>

#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "observe/accuracy.h"
#include "observe/head_metric.h"
#include "observe/ridge.h"

namespace headwise {
namespace {

constexpr double kStrength = 0.01;        // of the regularisation
constexpr uint32_t kTagPurpose = 0x7a65;  // of the seed that tags are drawn with
constexpr int64_t kTaggedRowsAtOnce = 1024;

/// A token, the tag of its word, and the one that was drawn for words of this form.
struct TaggedToken {
  int64_t token = 0;
  int32_t tag = 0, drawn = 0;
};

/// Tags of all tokens of a treebank.
class TaggedTexts {
 public:
  explicit TaggedTexts(const MetricContext& context) {
    std::map<std::string, int64_t> counts;
    for (const ObservedText& text : context.corpus.texts) {
      for_each_word(text, [&](const TreeWord& word, TokenSpan) { ++counts[word.upos]; });
    }
    std::map<std::string, int32_t> index;
    std::vector<int64_t> up_to;  // words with this tag or one before it
    for (const auto& [tag, count] : counts) {
      index.try_emplace(tag, static_cast<int32_t>(index.size()));
      up_to.push_back((up_to.empty() ? 0 : up_to.back()) + count);
    }
    tags_ = std::ssize(up_to);
    Random random(derived_seed(context.seed, 0, 0, kTagPurpose));
    std::unordered_map<std::string, int32_t> drawn;  // by form
    const auto draw = [&](const std::string& form) {
      const auto [at, is_new] = drawn.try_emplace(form, 0);
      if (is_new) {
        const int64_t word = random.below(static_cast<uint32_t>(up_to.back()));
        at->second = static_cast<int32_t>(std::ranges::upper_bound(up_to, word) - up_to.begin());
      }
      return at->second;
    };
    int32_t half = 0;
    rows_.resize(2);
    for (const ObservedText& text : context.corpus.texts) {
      auto& tagged = texts_.emplace_back();
      tagged.half = half;
      for_each_word(text, [&](const TreeWord& word, TokenSpan span) {
        const int32_t tag = index.at(word.upos), other = draw(word.form);
        for (int64_t t = span.begin; t < span.end; ++t) {
          tagged.tokens.push_back({t, tag, other});
        }
        rows_[half] += span.end - span.begin;
      });
      if (text.tree != nullptr) half = 1 - half;
    }
  }

  int64_t tags() const { return tags_; }
  int64_t rows(int32_t half) const { return rows_[half]; }

  /// The tokens of a text if it is of this half: 0 for sentences 0, 2, 4, …
  std::span<const TaggedToken> tokens(int64_t text, int32_t half) const {
    if (texts_[text].half != half) return {};
    return texts_[text].tokens;
  }

 private:
  struct Text {
    std::vector<TaggedToken> tokens{};
    int32_t half = 0;
  };

  template <class F>
  static void for_each_word(const ObservedText& text, const F& f) {
    if (text.tree == nullptr) return;
    std::vector<TokenSpan> bytes;
    for (const TreeWord& word : text.tree->words) bytes.push_back(word.bytes);
    const std::vector<TokenSpan> tokens = tokens_of_spans(text.encoding, bytes);
    for (size_t w = 0; w < tokens.size(); ++w) {
      const TreeWord& word = text.tree->words[w];
      if (tokens[w].begin < tokens[w].end && word.upos != "_") f(word, tokens[w]);
    }
  }

  int64_t tags_ = 0;
  std::vector<int64_t> rows_;
  std::vector<Text> texts_;
};

class PartsOfSpeech : public HeadMetric {
 public:
  PartsOfSpeech(const MetricContext& context, TaggedTexts texts)
      : heads_(heads_within_text(context)),
        texts_(std::move(texts)),
        sums_(heads_.size()),
        classifiers_(heads_.size()),
        right_(heads_.size()) {}

  void begin(const MetricBatch& batch) override {
    rows_.clear();
    classes_.clear();
    const auto tags = static_cast<int32_t>(texts_.tags());
    for (size_t b = 0; b < batch.texts.size(); ++b) {
      for (const TaggedToken& one : texts_.tokens(batch.texts[b], pass_)) {
        rows_.push_back(batch.source.offsets[b] + one.token);
        classes_.insert(classes_.end(), {one.tag, tags + one.drawn});
      }
    }
    count_tags();
  }

  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
            View<const float, 3> z, View<const float, 2>) override {
    if (rows_.empty() || !has_any(site, heads_)) return;
    parallel_for(std::ssize(site.heads), [&](int64_t h) {
      if (heads_[site.first + h] == 0) return;
      const int64_t D = z.extent(2);
      std::vector<double> x;
      for (int64_t begin = 0, end; begin < std::ssize(rows_); begin = end) {
        end = std::min(begin + kTaggedRowsAtOnce, std::ssize(rows_));
        x.resize((end - begin) * D);
        for (int64_t r = begin; r < end; ++r) {
          for (int64_t d = 0; d < D; ++d) x[(r - begin) * D + d] = z(rows_[r], h, d);
        }
        const auto classes = std::span(classes_).subspan(2 * begin, 2 * (end - begin));
        pass_ == kFit ? fit(site.first + h, x, classes) : test(site.first + h, x, classes);
      }
    });
  }

  bool again() override {
    if (pass_ == kTest) return false;
    pass_ = kTest;
    parallel_for(std::ssize(sums_), [&](int64_t h) {
      if (heads_[h] == 0) return;
      classifiers_[h] = RidgeClassifier(sums_[h], kStrength);
      sums_[h] = {};
    });
    return true;
  }

  void finish(std::span<Measures> heads, Evidence&) override {
    const int64_t n = texts_.rows(kTest);
    const auto most = std::ranges::max_element(fitted_) - fitted_.begin();
    const double baseline = static_cast<double>(tested_[most]) / static_cast<double>(n);
    for (size_t h = 0; h < heads_.size(); ++h) {
      if (heads_[h] == 0) continue;
      const auto [right, drawn] = right_[h];
      heads[h].add("upos", accuracy(right, n, baseline));
      heads[h].add("upos_selectivity",
                   {.value = static_cast<double>(right - drawn) / static_cast<double>(n), .n = n});
    }
  }

 private:
  enum Pass : int32_t { kFit, kTest };

  void count_tags() {
    std::vector<int64_t>& counts = pass_ == kFit ? fitted_ : tested_;
    counts.resize(texts_.tags());
    for (size_t r = 0; r < rows_.size(); ++r) ++counts[classes_[2 * r]];
  }

  void fit(int64_t head, std::span<const double> x, std::span<const int32_t> classes) {
    const int64_t D = 2 * std::ssize(x) / std::ssize(classes);
    if (sums_[head].numbers() == 0) sums_[head] = RidgeSums(D, 2 * texts_.tags());
    sums_[head].add(x, classes);
  }

  void test(int64_t head, std::span<const double> x, std::span<const int32_t> classes) {
    const int64_t tags = texts_.tags(), rows = std::ssize(classes) / 2, D = std::ssize(x) / rows;
    std::vector<double> values(2 * tags);
    for (int64_t r = 0; r < rows; ++r) {
      classifiers_[head](x.subspan(r * D, D), values);
      for (const int kind : {0, 1}) {
        const auto first = values.begin() + kind * tags;
        const auto best = std::max_element(first, first + tags) - values.begin();
        right_[head][kind] += best == classes[2 * r + kind];
      }
    }
  }

  std::vector<uint8_t> heads_;
  TaggedTexts texts_;
  Pass pass_ = kFit;
  std::vector<int64_t> rows_;     // of the batch
  std::vector<int32_t> classes_;  // [rows, 2]: tags, and then drawn ones
  std::vector<RidgeSums> sums_;   // of all heads
  std::vector<RidgeClassifier> classifiers_;
  std::vector<std::array<int64_t, 2>> right_;  // of all heads: tags, drawn ones
  std::vector<int64_t> fitted_, tested_;       // rows by tag
};

}  // namespace

std::unique_ptr<HeadMetric> parts_of_speech_metric(const MetricContext& context) {
  if (context.probes) return nullptr;  // a small lexicon is learnt by heart
  TaggedTexts texts(context);
  if (texts.rows(0) == 0 || texts.rows(1) == 0) return nullptr;
  return std::make_unique<PartsOfSpeech>(context, std::move(texts));
}

}  // namespace headwise
