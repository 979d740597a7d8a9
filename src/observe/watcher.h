// What watches a model run over texts, and then says something about its heads.
//
// A new measure is one file with a Watcher and one line in registry.cc.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/corpus.h"
#include "headwise/observe/evidence.h"
#include "headwise/observe/mean_ablation.h"
#include "headwise/observe/measure_groups.h"
#include "headwise/text/tokenizer.h"

namespace headwise {

/// What all watchers of a pass may look at.
struct WatchContext {
  const Model& model;
  const Tokenizer* tokenizer = nullptr;  // or none
  const ObservedCorpus& corpus;
  uint64_t seed = 0;
  bool all_pairs = false;         // of heads of one kind of attention, not only of one layer
  bool probes = false;            // the texts are built-in probes
  std::vector<uint8_t> wanted{};  // [heads of the model]: which are asked for; empty: all
  View<const float, 2> gates{};   // [1, heads of the model]; empty: all 1
  std::span<const HeadOutput> replaced{};  // outputs of heads that are mean-ablated
  MeasureSelection measures{};             // those that are asked for
};

/// The texts of one forward pass.
struct WatchedBatch {
  std::span<const int64_t> texts{};  // their indices in the corpus
  const TokenBatch& source;
  const TokenBatch& target;  // of the decoder of encoder-decoders, else empty

  /// What rows and keys of an attention are.
  const TokenBatch& rows(const AttentionSite& site) const {
    return site.side == Side::decoder && target.texts() > 0 ? target : source;
  }
  const TokenBatch& keys(const AttentionSite& site) const {
    return site.kind == AttentionKind::cross ? source : rows(site);
  }

  void run(const Model& model, const ForwardOptions& options) const {
    (void)(target.texts() > 0 ? model.hidden(source, target, options)
                              : model.hidden(source, options));
  }
};

/// Called for every batch of a pass: begin, then for every attention that has heads watch and
/// attended, then reached as layers end, then end; and once finish. Batches come in the same order,
/// and of the same texts, in every run. Sums are over rows in their order, so that no bit depends
/// on threads.
class Watcher {
 public:
  virtual ~Watcher() = default;

  virtual void begin(const WatchedBatch&) {}
  /// Whether the kernel shall gather statistics; `watch` may then ask it for more: key sets,
  /// largest weights. The observer of an attention stays the same from the first text to the last,
  /// and can be looked at until finish.
  virtual bool watches_weights() const { return false; }
  virtual void watch(const AttentionSite&, const Attention&, AttentionObserver&) {}
  virtual void attended(const AttentionSite&, const Attention&, const MultiHeadAttention&,
                        View<const float, 3> /*z*/, View<const float, 2> /*lse*/) {}
  /// What the attention adds to the residual stream, [T, C], for those who want it.
  virtual bool wants_projected() const { return false; }
  virtual void projected(const AttentionSite&, View<const float, 2>) {}
  /// The rows after the embedding and after each layer, for those who want them.
  virtual bool wants_reached() const { return false; }
  virtual void reached(Side, int64_t /*layer*/, View<const float, 2>) {}
  virtual void end() {}

  /// Whether it wants to go through the texts once more; asked after each time. Those who do not
  /// see nothing of what the others go through.
  virtual bool again() { return false; }

  /// Adds its numbers to the measures of the heads, one Measures per head of the model (see
  /// AttentionSite::first), and to the rest of the evidence.
  virtual void finish(std::span<Measures> heads, Evidence& evidence) = 0;
};

/// The passes over texts.
enum class WatchPass {
  attention,   // the corpus: label-free statistics
  similarity,  // the corpus once more: pairs of heads
  treebank,    // sentences with trees
  coreference,
  alignment,  // the corpus, where it is aligned with what the decoder reads
  repeated,   // random sequences that are repeated
  fields,     // probes: words of semantic fields
  rare,       // probes: sentences with a rare word
};

struct WatcherKind {
  WatchPass pass;
  std::vector<std::string_view> measures;  // the first part of their names
  /// Null if the model or the corpus have nothing for it.
  std::unique_ptr<Watcher> (*make)(const WatchContext& context);
};

std::span<const WatcherKind> watcher_kinds();

/// Whether any of its measures is asked for; of a pass, whether any kind of it is.
bool is_wanted(const WatcherKind& kind, const MeasureSelection& measures);
bool is_wanted(WatchPass pass, const MeasureSelection& measures);

// One factory per file.
std::unique_ptr<Watcher> watch_statistics(const WatchContext& context);  // of the kernel
std::unique_ptr<Watcher> watch_rare_tokens(const WatchContext& context);
std::unique_ptr<Watcher> watch_semantics(const WatchContext& context);
std::unique_ptr<Watcher> watch_contributions(const WatchContext& context);
std::unique_ptr<Watcher> watch_direct_logits(const WatchContext& context);
std::unique_ptr<Watcher> watch_repetition(const WatchContext& context);
std::unique_ptr<Watcher> watch_relations(const WatchContext& context);
std::unique_ptr<Watcher> watch_parts_of_speech(const WatchContext& context);
std::unique_ptr<Watcher> watch_coreference(const WatchContext& context);
std::unique_ptr<Watcher> watch_alignment(const WatchContext& context);
std::unique_ptr<Watcher> watch_field_probe(const WatchContext& context);
std::unique_ptr<Watcher> watch_rare_probe(const WatchContext& context);
std::unique_ptr<Watcher> watch_divergence(const WatchContext& context);  // js
std::unique_ptr<Watcher> watch_similarity(const WatchContext& context);  // output_cka

}  // namespace headwise
