// Runs a model under one watcher, for tests of what the watcher says.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "golden/folder.h"
#include "headwise/model/model.h"
#include "observe/watcher.h"

namespace headwise {

inline Model load_golden_model(const std::string& name) { return Model::load(golden_model(name)); }

class PassOn : public ForwardObserver {
 public:
  explicit PassOn(Watcher& watcher) : watcher_(watcher) {}
  bool wants_hidden() const override { return watcher_.wants_reached(); }
  void attended(const AttentionSite& site, const Attention& attention,
                const MultiHeadAttention& layer, View<float, 3> z,
                View<const float, 2> lse) override {
    watcher_.attended(site, attention, layer, z, lse);
  }

 private:
  Watcher& watcher_;
};

struct TextPair {
  TokenBatch source{}, target{};
};

/// What a watcher adds to the evidence after these batches.
struct Watching {
  const Model& model;
  std::unique_ptr<Watcher> (*make)(const WatchContext& context) = nullptr;
  bool all_pairs = false;
  View<const float, 2> gates{};

  Evidence run(std::span<const TextPair> batches) const {
    const ObservedCorpus corpus;
    const WatchContext context{.model = model, .corpus = corpus, .all_pairs = all_pairs};
    const std::unique_ptr<Watcher> watcher = make(context);
    PassOn observer(*watcher);
    const ForwardOptions options{.gates = gates, .observer = &observer};
    for (const TextPair& pair : batches) {
      const WatchedBatch batch{.source = pair.source, .target = pair.target};
      watcher->begin(batch);
      batch.run(model, options);
      watcher->end();
    }
    std::vector<Measures> heads(static_cast<size_t>(model.heads()));
    Evidence evidence;
    watcher->finish(heads, evidence);
    return evidence;
  }
};

}  // namespace headwise
