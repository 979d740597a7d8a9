// Batches of texts, and one observer that passes on what it sees.
#include "observe/watch_corpus.h"

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
  explicit PassObserver(std::vector<Watcher*> watchers) : watchers_(std::move(watchers)) {
    for (const Watcher* watcher : watchers_) {
      watches_weights_ |= watcher->watches_weights();
      wants_projected_ |= watcher->wants_projected();
      wants_reached_ |= watcher->wants_reached();
    }
  }

  AttentionObserver* watch(const AttentionSite& site, const Attention& attention) override {
    if (!watches_weights_ || site.heads.empty()) return nullptr;
    AttentionObserver& observer = observers_[site.first];
    AttentionObserver fresh{.cross = site.kind == AttentionKind::cross,
                            .heads = std::move(observer.heads)};
    observer = std::move(fresh);
    for (Watcher* watcher : watchers_) watcher->watch(site, attention, observer);
    return &observer;
  }

  void attended(const AttentionSite& site, const Attention& attention,
                const MultiHeadAttention& layer, View<float, 3> z,
                View<const float, 2> lse) override {
    if (site.heads.empty()) return;
    for (Watcher* watcher : watchers_) watcher->attended(site, attention, layer, z, lse);
  }

  bool wants_projected() const override { return wants_projected_; }
  void projected(const AttentionSite& site, View<const float, 2> rows) override {
    if (site.heads.empty()) return;
    for (Watcher* watcher : watchers_) {
      if (watcher->wants_projected()) watcher->projected(site, rows);
    }
  }

  bool wants_hidden() const override { return wants_reached_; }
  void reached(Side side, int64_t layer, View<const float, 2> rows) override {
    for (Watcher* watcher : watchers_) {
      if (watcher->wants_reached()) watcher->reached(side, layer, rows);
    }
  }

 private:
  std::vector<Watcher*> watchers_;
  bool watches_weights_ = false, wants_projected_ = false, wants_reached_ = false;
  std::map<int64_t, AttentionObserver> observers_;  // by AttentionSite::first; only with heads
};

}  // namespace

int64_t stretches_at(const ModelConfig& config) {
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

void watch_corpus(const WatchContext& context, const std::vector<WatchPass>& passes,
                  const WatchProgress& progress, std::span<Measures> heads, Evidence& evidence) {
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (const WatcherKind& kind : watcher_kinds()) {
    const bool asked = std::ranges::find(passes, kind.pass) != passes.end();
    if (!asked || !is_wanted(kind, context.measures)) continue;
    if (auto watcher = kind.make(context)) watchers.push_back(std::move(watcher));
  }
  if (watchers.empty() || context.corpus.texts.empty()) return;
  std::vector<Watcher*> active;
  for (const auto& watcher : watchers) active.push_back(watcher.get());
  std::list<PassObserver> observers;  // watchers look at their statistics until the end
  const auto total = std::ssize(context.corpus.texts);
  while (!active.empty()) {
    PassObserver& observer = observers.emplace_back(active);
    ReplacedHeads replaced(context.replaced);
    replaced.show(&observer);
    int64_t done = 0;
    for (const std::vector<int64_t>& texts :
         text_batches(context.corpus, stretches_at(context.model.config()))) {
      TokenBatch source, target;
      for (const int64_t i : texts) {
        const ObservedText& text = context.corpus.texts[i];
        source.add(text.ids, text.types);
        if (!text.decoder_ids.empty()) target.add(text.decoder_ids);
      }
      const WatchedBatch batch{.texts = texts, .source = source, .target = target};
      for (Watcher* watcher : active) watcher->begin(batch);
      const ForwardOptions options{.gates = context.gates,
                                   .observer = context.replaced.empty()
                                                   ? static_cast<ForwardObserver*>(&observer)
                                                   : &replaced};
      batch.run(context.model, options);
      for (Watcher* watcher : active) watcher->end();
      done += std::ssize(texts);
      if (progress) progress(done, total);
    }
    std::erase_if(active, [](Watcher* watcher) { return !watcher->again(); });
  }
  for (const auto& watcher : watchers) watcher->finish(heads, evidence);
}

}  // namespace headwise
