// Batches of texts, and one observer that passes on what it sees.
#include "observe/data_pass.h"

#include <algorithm>
#include <limits>
#include <list>
#include <map>
#include <utility>

namespace headwise {
namespace {

/// Enough rows for the matrix products, few enough for the caches.
constexpr int64_t kRowsPerBatch = 2048;

/// Passes on what is seen on one way through the texts.
class PassObserver : public ForwardObserver {
 public:
  explicit PassObserver(std::vector<HeadMetric*> metrics) : metrics_(std::move(metrics)) {
    for (const HeadMetric* metric : metrics_) {
      wants_weights_ |= metric->wants_weights();
      wants_attn_out_ |= metric->wants_attn_out();
      wants_resid_post_ |= metric->wants_resid_post();
    }
  }

  AttentionObserver* attention_observer(const AttentionSite& site,
                                        const Attention& attention) override {
    if (!wants_weights_ || site.heads.empty()) return nullptr;
    AttentionObserver& observer = observers_[site.first];
    AttentionObserver fresh{.cross = site.kind == AttentionKind::cross,
                            .heads = std::move(observer.heads)};
    observer = std::move(fresh);
    for (HeadMetric* metric : metrics_) metric->on_attention(site, attention, observer);
    return &observer;
  }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2> lse) override {
    if (site.heads.empty()) return;
    for (HeadMetric* metric : metrics_) metric->on_z(site, attention, layer, z, lse);
  }

  bool wants_attn_out() const override { return wants_attn_out_; }
  void on_attn_out(const AttentionSite& site, View<const float, 2> rows) override {
    if (site.heads.empty()) return;
    for (HeadMetric* metric : metrics_) {
      if (metric->wants_attn_out()) metric->on_attn_out(site, rows);
    }
  }

  bool wants_hidden() const override { return wants_resid_post_; }
  void on_resid_post(Side side, int64_t layer, View<const float, 2> rows) override {
    for (HeadMetric* metric : metrics_) {
      if (metric->wants_resid_post()) metric->on_resid_post(side, layer, rows);
    }
  }

 private:
  std::vector<HeadMetric*> metrics_;
  bool wants_weights_ = false, wants_attn_out_ = false, wants_resid_post_ = false;
  std::map<int64_t, AttentionObserver> observers_;  // by AttentionSite::first; only with heads
};

}  // namespace

int64_t dynamic_ntk_length(const ModelConfig& config) {
  return config.rotary.dynamic_factor > 0 ? config.max_positions
                                          : std::numeric_limits<int64_t>::max();
}

std::vector<std::vector<int64_t>> text_batches(const ObservedCorpus& corpus, int64_t longest) {
  std::vector<std::vector<int64_t>> batches;
  int64_t rows = kRowsPerBatch;
  for (int64_t i = 0; i < std::ssize(corpus.texts); ++i) {
    const ObservedText& text = corpus.texts[i];
    const int64_t more = std::max(std::ssize(text.ids), std::ssize(text.decoder_ids));
    const bool alone = more > longest;
    if (rows + more > kRowsPerBatch || alone) {
      batches.emplace_back();
      rows = 0;
    }
    batches.back().push_back(i);
    rows = alone ? kRowsPerBatch : rows + more;
  }
  return batches;
}

void run_data_pass(const MetricContext& context, const std::vector<DataPass>& passes,
                   const PassProgress& progress, std::span<Measures> heads, Evidence& evidence) {
  std::vector<std::unique_ptr<HeadMetric>> metrics;
  for (const HeadMetricKind& kind : head_metric_kinds()) {
    const bool asked = std::ranges::find(passes, kind.pass) != passes.end();
    if (!asked || !is_wanted(kind, context.measures)) continue;
    if (auto metric = kind.make(context)) metrics.push_back(std::move(metric));
  }
  if (metrics.empty() || context.corpus.texts.empty()) return;
  std::vector<HeadMetric*> active;
  for (const auto& metric : metrics) active.push_back(metric.get());
  std::list<PassObserver> observers;  // metrics look at their statistics until the end
  const auto total = std::ssize(context.corpus.texts);
  while (!active.empty()) {
    PassObserver& observer = observers.emplace_back(active);
    ReplacedHeads replaced(context.replaced);
    replaced.show(&observer);
    int64_t done = 0;
    for (const std::vector<int64_t>& texts :
         text_batches(context.corpus, dynamic_ntk_length(context.model.config()))) {
      TokenBatch source, target;
      for (const int64_t i : texts) {
        const ObservedText& text = context.corpus.texts[i];
        source.add(text.ids, text.types);
        if (!text.decoder_ids.empty()) target.add(text.decoder_ids);
      }
      const MetricBatch batch{.texts = texts, .source = source, .target = target};
      for (HeadMetric* metric : active) metric->begin(batch);
      const ForwardOptions options{.gates = context.gates,
                                   .observer = context.replaced.empty()
                                                   ? static_cast<ForwardObserver*>(&observer)
                                                   : &replaced};
      batch.run(context.model, options);
      for (HeadMetric* metric : active) metric->end();
      done += std::ssize(texts);
      if (progress) progress(done, total);
    }
    std::erase_if(active, [](HeadMetric* metric) { return !metric->again(); });
  }
  for (const auto& metric : metrics) metric->finish(heads, evidence);
}

}  // namespace headwise
