// direct_logit: what a head of a causal LM adds to the logit of the right next token, beside the
// mean of all logits, if nothing came between it and the output.
#include <algorithm>

#include "headwise/core/parallel.h"
#include "headwise/kernels/gemm.h"
#include "observe/head_metric.h"

namespace headwise {
namespace {

class DirectLogits : public HeadMetric {
 public:
  explicit DirectLogits(const MetricContext& context)
      : context_(context), sums_(context.model.heads()) {}

  void begin(const MetricBatch& batch) override {
    batch_ = &batch;
    kept_.clear();
  }

  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention& layer,
            View<const float, 3> z, View<const float, 2>) override {
    const int64_t T = z.extent(0), width = z.extent(1) * z.extent(2);
    Kept& kept = kept_.emplace_back(Kept{&site, &layer, Activations(T, width)});
    parallel_panels(T, 64, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) std::copy_n(&z(t, 0, 0), width, &kept.z.rows(t, 0));
    });
  }

  bool wants_resid_post() const override { return true; }
  void on_resid_post(Side, int64_t layer, View<const float, 2> rows) override {
    if (layer + 1 < context_.model.config().decoder.layers()) return;
    const TokenBatch& tokens = batch_->source;
    std::vector<int32_t> next(tokens.ids.begin() + (tokens.ids.empty() ? 0 : 1), tokens.ids.end());
    if (!tokens.ids.empty()) next.push_back(tokens.ids.front());  // not counted
    const Activations directions = context_.model.logit_directions(rows, next);
    for (const Kept& kept : kept_) add(kept, directions.rows);
  }

  void finish(std::span<Measures> heads, Evidence&) override {
    for (size_t h = 0; h < heads.size(); ++h) {
      heads[h].add("direct_logit", {.value = sums_[h].mean(), .n = sums_[h].n});
    }
  }

 private:
  /// What the heads of an attention mixed, until it is known where to.
  struct Kept {
    const AttentionSite* site;
    const MultiHeadAttention* layer;
    Activations z;
  };

  /// d . (W z) = (W' d) . z, for all rows but the last of each text.
  void add(const Kept& kept, View<const float, 2> directions) {
    const int64_t H = std::ssize(kept.site->heads), T = directions.extent(0);
    if (H == 0) return;
    const int64_t Dv = kept.z.rows.extent(1) / H;
    Activations projected(T, H * Dv);
    gemm(directions, kept.layer->weights()->output(), projected.rows);
    parallel_for(H, [&](int64_t h) {
      for (int64_t b = 0; b < batch_->source.sequences(); ++b) {
        for (int64_t t = batch_->source.offsets[b]; t + 1 < batch_->source.offsets[b + 1]; ++t) {
          double sum = 0;
          for (int64_t d = h * Dv; d < (h + 1) * Dv; ++d) {
            sum += double{projected.rows(t, d)} * kept.z.rows(t, d);
          }
          sums_[kept.site->first + h] += {sum, 1};
        }
      }
    });
  }

  const MetricContext& context_;
  const MetricBatch* batch_ = nullptr;
  std::vector<Kept> kept_;
  std::vector<RunningMean> sums_;
};

}  // namespace

std::unique_ptr<HeadMetric> direct_logits_metric(const MetricContext& context) {
  if (context.model.config().task != Task::causal_lm) return nullptr;
  return std::make_unique<DirectLogits>(context);
}

}  // namespace headwise
