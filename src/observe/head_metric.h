// A head metric: hooks into forward passes over a corpus and adds measures of heads.
//
// A new measure is one file with a HeadMetric and one line in registry.cc.
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

/// Shared input of the metrics of a pass.
struct MetricContext {
  const Model& model;
  const Tokenizer* tokenizer = nullptr;  // or none
  const ObservedCorpus& corpus;
  uint64_t seed = 0;
  bool all_pairs = false;         // of heads of one kind of attention, not only of one layer
  bool probes = false;            // the texts are built-in probes
  bool as_far_apart = false;      // weigh relations as if words were as far apart as in real text
  std::vector<uint8_t> wanted{};  // [heads of the model]: which are asked for; empty: all
  View<const float, 2> gates{};   // [1, heads of the model]; empty: all 1
  std::span<const HeadOutput> replaced{};  // outputs of heads that are mean-ablated
  MeasureSelection measures{};             // those that are asked for
};

/// The texts of one forward pass.
struct MetricBatch {
  std::span<const int64_t> texts{};  // their indices in the corpus
  const TokenBatch& source;
  const TokenBatch& target;  // of the decoder of encoder-decoders, else empty

  /// What rows and keys of an attention are.
  const TokenBatch& rows(const AttentionSite& site) const {
    return site.side == Side::decoder && target.sequences() > 0 ? target : source;
  }
  const TokenBatch& keys(const AttentionSite& site) const {
    return site.kind == AttentionKind::cross ? source : rows(site);
  }

  void run(const Model& model, const ForwardOptions& options) const {
    (void)(target.sequences() > 0 ? model.forward(source, target, options)
                                  : model.forward(source, options));
  }
};

/// For every batch of a pass: begin, then on_attention and on_z for every attention with heads,
/// on_resid_post after each layer, then end. After the last batch: finish. Batches come in the same
/// order, and of the same texts, in every run. Sums are over rows in their order, so that no bit
/// depends on threads.
class HeadMetric {
 public:
  virtual ~HeadMetric() = default;

  virtual void begin(const MetricBatch&) {}
  /// Whether the kernel gathers statistics. `on_attention` may then request more: key sets, largest
  /// weights. The observer of an attention stays the same for the whole pass and is valid until
  /// finish.
  virtual bool wants_weights() const { return false; }
  virtual void on_attention(const AttentionSite&, const Attention&, AttentionObserver&) {}
  virtual void on_z(const AttentionSite&, const Attention&, const MultiHeadAttention&,
                    View<const float, 3> /*z*/, View<const float, 2> /*lse*/) {}
  /// What the attention adds to the residual stream, [T, C], for those who want it.
  virtual bool wants_attn_out() const { return false; }
  virtual void on_attn_out(const AttentionSite&, View<const float, 2>) {}
  /// The rows after the embedding and after each layer, for those who want them.
  virtual bool wants_resid_post() const { return false; }
  virtual void on_resid_post(Side, int64_t /*layer*/, View<const float, 2>) {}
  virtual void end() {}

  /// Whether it needs another pass over the texts. Asked after each pass; metrics that do not are
  /// not called in it.
  virtual bool again() { return false; }

  /// Adds its numbers to the measures of the heads, one Measures per head of the model (see
  /// AttentionSite::first), and to the rest of the evidence.
  virtual void finish(std::span<Measures> heads, Evidence& evidence) = 0;
};

/// The passes over texts.
enum class DataPass {
  attention,   // the corpus: label-free statistics
  similarity,  // the corpus once more: pairs of heads
  treebank,    // sentences with trees
  coreference,
  alignment,  // the corpus, where it is aligned with what the decoder reads
  repeated,   // random sequences that are repeated
  fields,     // probes: words of semantic fields
  rare,       // probes: sentences with a rare word
};

struct HeadMetricKind {
  DataPass pass;
  std::vector<std::string_view> measures;  // the first part of their names
  /// Null if the model or the corpus have nothing for it.
  std::unique_ptr<HeadMetric> (*make)(const MetricContext& context);
};

std::span<const HeadMetricKind> head_metric_kinds();

/// Whether any of its measures is asked for; of a pass, whether any kind of it is.
bool is_wanted(const HeadMetricKind& kind, const MeasureSelection& measures);
bool is_wanted(DataPass pass, const MeasureSelection& measures);

// One factory per file.
std::unique_ptr<HeadMetric> statistics_metric(const MetricContext& context);  // of the kernel
std::unique_ptr<HeadMetric> rare_tokens_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> semantics_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> contributions_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> direct_logits_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> repetition_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> relations_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> parts_of_speech_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> coreference_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> alignment_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> field_probe_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> rare_probe_metric(const MetricContext& context);
std::unique_ptr<HeadMetric> divergence_metric(const MetricContext& context);  // js
std::unique_ptr<HeadMetric> similarity_metric(const MetricContext& context);  // output_cka

}  // namespace headwise
