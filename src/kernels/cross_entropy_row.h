// What one row of logits is scored by, and what comes of it.
#pragma once

#include <cstdint>

namespace headwise {

struct RowScoring {
  float label_smoothing;
  bool gradient;  // put it in the place of the logits,
  float scale;    // times this
};

struct RowLoss {
  double loss, nll;
  bool correct;
};

/// What is known of a row after some of its logits.
struct RunningSum {
  float most;  // of them
  double sum;  // Σ exp(logit - most)
};

}  // namespace headwise
