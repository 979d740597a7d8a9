// rare_share: whether a head attends to the rarest token that it sees.
#include <algorithm>
#include <list>

#include "observe/head_metric.h"
#include "observe/token_kinds.h"
#include "observe/visible_keys.h"

namespace headwise {
namespace {

/// Of the keys that a row sees and that are not special: how rare the rarest is, and how many are
/// as rare.
struct Rarest {
  int64_t count = std::numeric_limits<int64_t>::max();  // in the corpus
  int64_t tied = 0, visible = 0;

  void add(int64_t key_count) {
    ++visible;
    if (key_count < count) {
      count = key_count;
      tied = 0;
    }
    if (key_count == count) ++tied;
  }
  double chance() const { return static_cast<double>(tied) / static_cast<double>(visible); }
};

/// The rows of a batch under one mask.
struct RarestOfRows {
  bool cross = false;
  const TokenBatch* tokens = nullptr;  // the rows'
  AttentionMask mask{};
  std::vector<Rarest> rows{};        // [T]
  std::vector<int64_t> first_key{};  // [T], of the row's text
  RunningMean chance{};              // over the rows that see a key
};

/// The tokens of one side of the corpus.
struct CountedTokens {
  std::vector<int64_t> counts{};   // by id, in the whole corpus
  std::vector<uint8_t> special{};  // of the batch
  std::vector<int64_t> rarity{};   // of the batch: counts of its tokens
};

class RareTokens : public HeadMetric {
 public:
  explicit RareTokens(const MetricContext& context)
      : kinds_(context), sums_(context.model.heads()) {
    const ModelConfig& config = context.model.config();
    source_.counts.resize(std::max(config.vocabulary, config.decoder_vocabulary));
    target_.counts.resize(source_.counts.size());
    for (const ObservedText& text : context.corpus.texts) {
      for (const int32_t id : text.ids) ++source_.counts[id];
      for (const int32_t id : text.decoder_ids) ++target_.counts[id];
    }
  }

  bool wants_weights() const override { return true; }

  void begin(const MetricBatch& batch) override {
    batch_ = &batch;
    rarest_.clear();
    fill(batch.source, source_);
    fill(batch.target, target_);
  }

  void on_attention(const AttentionSite& site, const Attention& attention,
                    AttentionObserver& observer) override {
    const int64_t rows = attention.q_offsets.back(), heads = std::ssize(site.heads);
    largest_.resize(rows * heads);
    observer.left_out = keys(site).special;
    observer.largest_kept = {largest_.data(), {rows, heads}};
  }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<const float, 3>, View<const float, 2>) override {
    const int64_t heads = std::ssize(site.heads);
    const std::vector<int64_t>& rarity = keys(site).rarity;
    for (const HeadGroup& group : layer.groups(attention)) {
      const RarestOfRows& rarest = rarest_of_rows(site, group.attention.mask);
      std::vector<int64_t> right(group.count);
      for (size_t row = 0; row < rarest.rows.size(); ++row) {
        if (rarest.rows[row].visible == 0) continue;
        const int64_t* const of_text = rarity.data() + rarest.first_key[row];
        const int32_t* const largest = largest_.data() + row * heads + group.first;
        for (int64_t h = 0; h < group.count; ++h) {
          right[h] += largest[h] >= 0 && of_text[largest[h]] == rarest.rows[row].count;
        }
      }
      for (int64_t h = 0; h < group.count; ++h) {
        Sums& sums = sums_[site.first + group.first + h];
        sums.share += {static_cast<double>(right[h]), rarest.chance.n};
        sums.chance += rarest.chance;
      }
    }
  }

  void finish(std::span<Measures> heads, Evidence&) override {
    for (size_t h = 0; h < heads.size(); ++h) {
      heads[h].add("rare_share", {.value = sums_[h].share.mean(), .n = sums_[h].share.n});
      heads[h].add("rare_chance", {.value = sums_[h].chance.mean(), .n = sums_[h].chance.n});
    }
  }

 private:
  struct Sums {
    RunningMean share{}, chance{};
  };

  void fill(const TokenBatch& tokens, CountedTokens& side) const {
    side.special = kinds_.special(*batch_, tokens);
    side.rarity.clear();
    for (const int32_t id : tokens.ids) side.rarity.push_back(side.counts[id]);
  }

  const CountedTokens& keys(const AttentionSite& site) const {
    return &batch_->keys(site) == &batch_->source ? source_ : target_;
  }

  /// Most layers have the same mask.
  const RarestOfRows& rarest_of_rows(const AttentionSite& site, const AttentionMask& mask) {
    const TokenBatch* const tokens = &batch_->rows(site);
    const bool cross = site.kind == AttentionKind::cross;
    for (const RarestOfRows& known : rarest_) {
      if (known.cross == cross && known.tokens == tokens && known.mask == mask) return known;
    }
    RarestOfRows& result =
        rarest_.emplace_back(RarestOfRows{.cross = cross, .tokens = tokens, .mask = mask});
    fill(site, result);
    return result;
  }

  void fill(const AttentionSite& site, RarestOfRows& result) const {
    const TokenBatch &rows = *result.tokens, &tokens = batch_->keys(site);
    for (int64_t b = 0; b < rows.sequences(); ++b) {
      const int64_t n = rows.offsets[b + 1] - rows.offsets[b];
      const int64_t first = tokens.offsets[b], m = tokens.offsets[b + 1] - first;
      Rarest running;
      int64_t begin = 0, end = 0;  // the keys in `running`
      for (int64_t i = 0; i < n; ++i) {
        const VisibleKeys seen = visible_keys(result.mask, i + m - n, m);
        if (seen.begin != begin || seen.end < end) {
          running = {};
          begin = end = seen.begin;
        }
        for (; end < seen.end; ++end) {
          if (keys(site).special[first + end] == 0) running.add(keys(site).rarity[first + end]);
        }
        result.rows.push_back(running);
        result.first_key.push_back(first);
        if (running.visible > 0) result.chance += {running.chance(), 1};
      }
    }
  }

  TokenKinds kinds_;
  const MetricBatch* batch_ = nullptr;
  CountedTokens source_, target_;
  std::list<RarestOfRows> rarest_;  // of the batch
  std::vector<int32_t> largest_;    // [T, H] of the attention at hand
  std::vector<Sums> sums_;          // of all heads
};

}  // namespace

std::unique_ptr<HeadMetric> rare_tokens_metric(const MetricContext& context) {
  return std::make_unique<RareTokens>(context);
}

}  // namespace headwise
