// Gates of heads by their names, and heads that are ablated to their mean output.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/observe/corpus.h"
#include "headwise/observe/mean_ablation.h"

namespace headwise {

/// Interventions on the heads of one model, which must outlive them.
///
///   HeadGates gates(model);
///   gates.set("L3.H1,L4", 0);
///   model.forward(batch, gates.options());
///
/// Copies share mean outputs, and are for one pass at a time.
class HeadGates {
 public:
  explicit HeadGates(const Model& model) : model_(&model) {}

  /// Multiplies these heads ("L3.H1", "L3", "all", with commas between) by `gate`. Throws Error for
  /// heads that are not there, and for a gate that is not in [0, 1].
  void set(std::string_view heads, double gate);
  /// Their outputs become their means over texts, from measure_means() on.
  void set_to_mean(std::string_view heads);

  /// [heads of the model], or empty: none was set.
  const std::vector<float>& values() const { return values_; }

  /// The heads that set_to_mean named, by their numbers among all heads.
  const std::vector<int64_t>& mean_heads() const { return mean_heads_; }
  /// Measures the outputs of these heads over all rows of the texts, from the model without gates.
  /// `progress` gets texts done and all of them, and may throw to stop.
  void measure_means(const ObservedCorpus& corpus,
                     const std::function<void(int64_t, int64_t)>& progress = {});
  const std::vector<HeadOutput>& replaced() const { return replaced_->outputs; }

  /// Of a forward pass with these gates and mean outputs. The observer sees what comes of them.
  ForwardOptions options(ForwardObserver* observer = nullptr) const;

 private:
  struct Replaced {
    std::vector<HeadOutput> outputs{};
    ReplacedHeads observer{{}};
  };

  const Model* model_;
  std::vector<float> values_;
  std::vector<int64_t> mean_heads_;
  std::shared_ptr<Replaced> replaced_ = std::make_shared<Replaced>();
};

}  // namespace headwise
