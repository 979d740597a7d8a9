// What every head does while it is trained: label-free statistics of its weights, and the norm of
// its gradient, as records for log.jsonl.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/train/trainable_model.h"

namespace headwise {

/// Looks on during passes of a model, given as PassOptions::observer.
class HeadLog : public ForwardObserver {
 public:
  AttentionObserver* attention_observer(const AttentionSite& site,
                                        const Attention& attention) override;
  bool wants_hidden() const override { return false; }

  /// {"L0.H0": {"rows": 812, "entropy": 1.9, …, "gradient_norm": 0.01}, …} of the passes since the
  /// last time, under the names that measures have everywhere. What no row counts for is left out.
  nlohmann::ordered_json take(const TrainableModel& model);

 private:
  std::map<std::string, AttentionObserver> observers_;  // by attention
};

/// How many heads of each attention have learned gates above 0; none if there are no such gates.
std::vector<std::pair<std::string, int64_t>> open_heads(const TrainableModel& model);

}  // namespace headwise
