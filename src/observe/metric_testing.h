// Runs a model under one metric, for tests of what the metric says.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "golden/folder.h"
#include "headwise/model/model.h"
#include "observe/head_metric.h"

namespace headwise {

inline Model load_golden_model(const std::string& name) { return load(golden_model(name)); }

class PassOn : public ForwardObserver {
 public:
  explicit PassOn(HeadMetric& metric) : metric_(metric) {}
  bool wants_hidden() const override { return metric_.wants_resid_post(); }
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2> lse) override {
    metric_.on_z(site, attention, layer, z, lse);
  }

 private:
  HeadMetric& metric_;
};

struct TextPair {
  TokenBatch source{}, target{};
};

/// What a metric adds to the evidence after these batches.
struct MetricRun {
  const Model& model;
  std::unique_ptr<HeadMetric> (*make)(const MetricContext& context) = nullptr;
  bool all_pairs = false;
  View<const float, 2> gates{};

  Evidence run(std::span<const TextPair> batches) const {
    const ObservedCorpus corpus;
    const MetricContext context{.model = model, .corpus = corpus, .all_pairs = all_pairs};
    const std::unique_ptr<HeadMetric> metric = make(context);
    PassOn observer(*metric);
    const ForwardOptions options{.gates = gates, .observer = &observer};
    for (const TextPair& pair : batches) {
      const MetricBatch batch{.source = pair.source, .target = pair.target};
      metric->begin(batch);
      batch.run(model, options);
      metric->end();
    }
    std::vector<Measures> heads(static_cast<size_t>(model.heads()));
    Evidence evidence;
    metric->finish(heads, evidence);
    return evidence;
  }
};

}  // namespace headwise
