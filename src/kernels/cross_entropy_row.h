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

}  // namespace headwise
