// alignment: whether cross attention attends to the words that a word translates.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "observe/accuracy.h"
#include "observe/head_metric.h"

namespace headwise {
namespace {

/// A row of the decoder, and the source tokens that it should look at.
struct AlignedItem {
  int64_t row = 0;
  std::span<const int32_t> right{};
};

/// The rows of a text that are about to write an aligned token (1 ahead), or that read it (0).
std::vector<AlignedItem> items_of(const ObservedText& text, int64_t ahead) {
  std::vector<AlignedItem> items;
  for (int64_t t = ahead; t < std::ssize(text.aligned); ++t) {
    if (!text.aligned[t].empty()) items.push_back({t - ahead, text.aligned[t]});
  }
  return items;
}

/// Answers of heads beside the best fixed offset, which goes from rows to source tokens.
class AlignedRows {
 public:
  AlignedRows(std::string name, int64_t ahead, const MetricContext& context)
      : answers{.name = std::move(name),
                .right = std::vector<Answers::Halves>(context.model.heads())},
        ahead_(ahead) {
    std::map<int64_t, Answers::Halves> offsets;  // how often each is right
    for (const ObservedText& text : context.corpus.texts) {
      first_.push_back(answers.all());
      for (const AlignedItem& item : items_of(text, ahead_)) {
        const int64_t half = answers.all() % 2;
        ++answers.items[half];
        for (const int32_t key : item.right) ++offsets[key - item.row][half];
      }
    }
    for (const auto& [offset, right] : offsets) answers.raise_baseline(right);
  }

  /// What the heads of an attention look at most, [T, H], in the text whose rows begin at `first`.
  void add(const ObservedCorpus& corpus, int64_t text, const AttentionSite& site, int64_t first,
           View<const int32_t, 2> largest) {
    int64_t number = first_[text];
    for (const AlignedItem& item : items_of(corpus.texts[text], ahead_)) {
      for (int64_t h = 0; h < largest.extent(1); ++h) {
        answers.right[site.first + h][number % 2] +=
            std::ranges::binary_search(item.right, largest(first + item.row, h));
      }
      ++number;
    }
  }

  Answers answers;

 private:
  int64_t ahead_;
  std::vector<int64_t> first_;  // of each text, the number of its first item
};

class Alignment : public HeadMetric {
 public:
  explicit Alignment(const MetricContext& context)
      : context_(context),
        heads_(context.model.heads()),
        kinds_{AlignedRows("alignment", 1, context), AlignedRows("alignment_read", 0, context)} {
    for (const AttentionSite& site : context.model.attentions()) {
      if (site.kind != AttentionKind::cross) continue;
      for (int64_t h = site.first; h < site.first + std::ssize(site.heads); ++h) {
        heads_[h] = context.wanted.empty() || context.wanted[h] != 0;
      }
    }
  }

  bool has_items() const { return kinds_[1].answers.all() > 0; }

  bool wants_weights() const override { return true; }

  void begin(const MetricBatch& batch) override { batch_ = &batch; }

  void on_attention(const AttentionSite& site, const Attention& attention,
                    AttentionObserver& observer) override {
    if (!has_any(site, heads_)) return;
    const int64_t rows = attention.q_offsets.back(), heads = std::ssize(site.heads);
    largest_.resize(rows * heads);
    observer.largest = {largest_.data(), {rows, heads}};
  }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention&,
            View<const float, 3>, View<const float, 2>) override {
    if (!has_any(site, heads_)) return;
    const View<const int32_t, 2> largest(largest_.data(),
                                         {attention.q_offsets.back(), std::ssize(site.heads)});
    for (size_t b = 0; b < batch_->texts.size(); ++b) {
      for (AlignedRows& kind : kinds_) {
        kind.add(context_.corpus, batch_->texts[b], site, batch_->target.offsets[b], largest);
      }
    }
  }

  void finish(std::span<Measures> heads, Evidence& evidence) override {
    for (const AlignedRows& kind : kinds_) {
      report(kind.answers, context_, heads_, heads, evidence);
    }
  }

 private:
  const MetricContext& context_;
  std::vector<uint8_t> heads_;  // of cross attention that are asked for
  std::array<AlignedRows, 2> kinds_;
  const MetricBatch* batch_ = nullptr;
  std::vector<int32_t> largest_;  // [T, H] of the attention at hand
};

}  // namespace

std::unique_ptr<HeadMetric> alignment_metric(const MetricContext& context) {
  if (!context.model.config().encoder_decoder()) return nullptr;
  auto metric = std::make_unique<Alignment>(context);
  if (!metric->has_items()) return nullptr;
  return metric;
}

}  // namespace headwise
