// What heads do on two kinds of built-in probes:
//   rare_word   share of rows (those of the rare word left out, and those that do not see it) whose
//               largest weight, special tokens left out, is on a token of the rare word;
//               chance: its visible tokens among all visible ones that are not special
//   same_field  share of words of semantic fields whose largest weight on another such word is on
//               one of the same field; weight to a word is the sum over its tokens, weight from a
//               word the mean; a word counts if it sees one of its field and one of another;
//               chance: those of the same field among those that it sees
// In encoder-decoders the encoder is observed.
#include <algorithm>
#include <numeric>
#include <utility>

#include "headwise/core/parallel.h"
#include "observe/accuracy.h"
#include "observe/head_metric.h"
#include "observe/visible_keys.h"

namespace headwise {
namespace {

struct ShareTally {
  int64_t hits = 0, n = 0;
  double chance = 0;  // summed up
};

/// What one head does on one text.
struct TextMap {
  const AttentionMaps& maps;
  int64_t first = 0, length = 0;  // its rows
  int64_t head = 0;
  AttentionMask mask{};

  std::span<const float> row(int64_t i) const { return maps.row(first + i, head); }
  VisibleKeys visible(int64_t i) const { return visible_keys(mask, i, length); }
};

/// The mask of each head: fixed ones have their own.
std::vector<AttentionMask> head_masks(const MultiHeadAttention& layer, const Attention& attention) {
  std::vector<AttentionMask> masks(layer.shape().H);
  for (const HeadGroup& group : layer.groups(attention)) {
    std::fill_n(masks.begin() + group.first, group.count, group.attention.mask);
  }
  return masks;
}

/// Counts hits over texts, head by head.
class ProbeMetric : public HeadMetric {
 public:
  ProbeMetric(const MetricContext& context, const char* name)
      : context_(context),
        name_(name),
        observed_(heads_within_text(context)),
        tallies_(context.model.heads()) {}

  void begin(const MetricBatch& batch) override { batch_ = &batch; }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<const float, 3>, View<const float, 2>) override {
    if (!has_any(site, observed_)) return;
    const std::vector<int64_t>& offsets = batch_->source.offsets;
    std::vector<int64_t> rows(batch_->source.rows());
    std::iota(rows.begin(), rows.end(), 0);
    const AttentionMaps maps = layer.maps(attention, rows);
    const std::vector<AttentionMask> masks = head_masks(layer, attention);
    parallel_for(std::ssize(site.heads), [&](int64_t h) {
      if (observed_[site.first + h] == 0) return;
      for (size_t b = 0; b < batch_->texts.size(); ++b) {
        const TextMap map{.maps = maps,
                          .first = offsets[b],
                          .length = offsets[b + 1] - offsets[b],
                          .head = h,
                          .mask = masks[h]};
        count(batch_->texts[b], map, tallies_[site.first + h]);
      }
    });
  }

  void finish(std::span<Measures> heads, Evidence&) override {
    for (size_t h = 0; h < tallies_.size(); ++h) {
      const auto& [hits, n, chance] = tallies_[h];
      if (n > 0) heads[h].add(name_, accuracy(hits, n, chance / static_cast<double>(n)));
    }
  }

 protected:
  virtual void count(int64_t text, const TextMap& map, ShareTally& running_mean) const = 0;

  const MetricContext& context_;

 private:
  const char* name_;
  std::vector<uint8_t> observed_;  // [heads of the model]
  const MetricBatch* batch_ = nullptr;
  std::vector<ShareTally> tallies_;  // [heads of the model]
};

class RareProbe : public ProbeMetric {
 public:
  explicit RareProbe(const MetricContext& context) : ProbeMetric(context, "rare_word") {
    for (const ObservedText& text : context.corpus.texts) {
      rare_.push_back(text.rare == nullptr
                          ? TokenSpan()
                          : tokens_of_spans(text.encoding, {text.rare->word}).front());
    }
  }

 protected:
  void count(int64_t text, const TextMap& map, ShareTally& running_mean) const override {
    const TokenSpan rare = rare_[text];
    const auto is_rare = [&](int64_t i) { return rare.begin <= i && i < rare.end; };
    const std::vector<uint8_t>& special = context_.corpus.texts[text].encoding.special;
    for (int64_t i = 0; i < map.length; ++i) {
      if (is_rare(i)) continue;
      const VisibleKeys keys = map.visible(i);
      const std::span<const float> weights = map.row(i);
      int64_t largest = -1, candidates = 0, right = 0;
      for (int64_t j = keys.begin; j < keys.end; ++j) {
        if (special[j]) continue;
        ++candidates;
        right += is_rare(j) ? 1 : 0;
        if (largest < 0 || weights[j] > weights[largest]) largest = j;
      }
      if (right == 0) continue;
      running_mean.hits += is_rare(largest) ? 1 : 0;
      ++running_mean.n;
      running_mean.chance += static_cast<double>(right) / static_cast<double>(candidates);
    }
  }

 private:
  std::vector<TokenSpan> rare_;  // [texts]; empty: none
};

class FieldProbe : public ProbeMetric {
 public:
  explicit FieldProbe(const MetricContext& context) : ProbeMetric(context, "same_field") {
    for (const ObservedText& text : context.corpus.texts) {
      words_.push_back(text.field == nullptr ? std::vector<TokenSpan>()
                                             : tokens_of_spans(text.encoding, text.field->words));
    }
  }

 protected:
  void count(int64_t text, const TextMap& map, ShareTally& running_mean) const override {
    const std::vector<TokenSpan>& words = words_[text];
    for (size_t from = 0; from < words.size(); ++from) {
      if (words[from].begin == words[from].end) continue;
      const std::vector<std::string>& fields = context_.corpus.texts[text].field->fields;
      const VisibleKeys keys = map.visible(words[from].end - 1);
      double largest = -1;
      bool hit = false;
      int64_t candidates = 0, right = 0;
      for (size_t to = 0; to < words.size(); ++to) {
        const bool seen = std::max(words[to].begin, keys.begin) < std::min(words[to].end, keys.end);
        if (to == from || !seen) continue;
        const bool same = fields[to] == fields[from];
        ++candidates;
        right += same ? 1 : 0;
        const double weight = weight_of(map, words[from], words[to]);
        if (weight > largest) {
          largest = weight;
          hit = same;
        }
      }
      if (right == 0 || right == candidates) continue;
      running_mean.hits += hit ? 1 : 0;
      ++running_mean.n;
      running_mean.chance += static_cast<double>(right) / static_cast<double>(candidates);
    }
  }

 private:
  static double weight_of(const TextMap& map, TokenSpan from, TokenSpan to) {
    double sum = 0;
    for (int64_t i = from.begin; i < from.end; ++i) {
      for (int64_t j = to.begin; j < to.end; ++j) sum += map.row(i)[j];
    }
    return sum / static_cast<double>(from.end - from.begin);
  }

  std::vector<std::vector<TokenSpan>> words_;  // [texts], the tokens of each word
};

}  // namespace

std::unique_ptr<HeadMetric> rare_probe_metric(const MetricContext& context) {
  const auto is_one = [](const ObservedText& text) { return text.rare != nullptr; };
  if (!std::ranges::any_of(context.corpus.texts, is_one)) return nullptr;
  return std::make_unique<RareProbe>(context);
}

std::unique_ptr<HeadMetric> field_probe_metric(const MetricContext& context) {
  const auto is_one = [](const ObservedText& text) { return text.field != nullptr; };
  if (!std::ranges::any_of(context.corpus.texts, is_one)) return nullptr;
  return std::make_unique<FieldProbe>(context);
}

}  // namespace headwise
