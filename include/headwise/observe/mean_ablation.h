// Mean ablation: heads whose output is their mean over texts, at every row.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/corpus.h"

namespace headwise {

/// Sums the outputs of all heads over the rows of the passes that it observes.
class HeadOutputMeans : public ForwardObserver {
 public:
  explicit HeadOutputMeans(const Model& model);

  bool wants_hidden() const override { return false; }
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2> lse) override;

  int64_t rows(int64_t head) const { return rows_[head]; }
  /// [heads of the model][Dv]; zeros without rows.
  std::vector<std::vector<float>> means() const;

 private:
  std::vector<std::vector<double>> sums_;
  std::vector<int64_t> rows_;
};

/// What replaces the output of a head.
struct HeadOutput {
  int64_t head = 0;             // among all heads of the model, see AttentionSite::first
  std::vector<float> output{};  // [Dv]
};

/// The mean outputs of these heads over all rows of the texts, from the model with all gates 1.
/// `progress` gets texts done and all of them. Throws Error for a head that no row reaches: one of
/// a decoder that has nothing to read.
std::vector<HeadOutput> mean_outputs(const Model& model, const ObservedCorpus& corpus,
                                     std::span<const int64_t> heads,
                                     const std::function<void(int64_t, int64_t)>& progress = {});

/// Replaces the outputs of heads in the passes that it observes. Another observer may follow, which
/// sees the outputs after that. The outputs must outlive it.
class ReplacedHeads : public ForwardObserver {
 public:
  explicit ReplacedHeads(std::span<const HeadOutput> outputs) : outputs_(outputs) {}

  /// Null: nobody.
  void show(ForwardObserver* next) { next_ = next; }

  bool wants_heads() const override { return true; }
  AttentionObserver* attention_observer(const AttentionSite& site,
                                        const Attention& attention) override;
  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2> lse) override;
  bool wants_attn_out() const override;
  void on_attn_out(const AttentionSite& site, View<const float, 2> rows) override;
  bool wants_hidden() const override;
  void on_resid_post(Side side, int64_t layer, View<const float, 2> rows) override;

 private:
  std::span<const HeadOutput> outputs_;
  ForwardObserver* next_ = nullptr;
};

}  // namespace headwise
