// Examples in batches of about equal size: shuffled for every epoch, or in order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/train/examples.h"

namespace headwise {

struct BatchSettings {
  int64_t tokens = 2000;  // the most of a batch, source and target together; a longer example is
                          // alone in its batch
  uint64_t seed = 0;
  bool shuffle = true;  // false: the examples in their order, in every epoch
};

/// The batches of one epoch: every example is in exactly one of them. A pure function of the
/// examples, the settings and the number of the epoch, so that a run can resume at any batch.
class Epoch {
 public:
  /// Keeps a reference to the examples, which must outlive it.
  Epoch(const Examples& examples, const BatchSettings& settings, int64_t number);

  int64_t batches() const { return static_cast<int64_t>(begins_.size()) - 1; }
  TrainingBatch batch(int64_t index) const;

  /// The examples of a batch, by their numbers.
  std::span<const int64_t> examples(int64_t index) const;

 private:
  const Examples* examples_;
  uint64_t masks_;  // the seed of what masked LM hides
  std::vector<int64_t> order_;
  std::vector<int64_t> begins_;  // of batches in order_, and the end
};

}  // namespace headwise
