// From logits to tokens: which ones are allowed, the best, the k best, one drawn by chance.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/core/random.h"
#include "headwise/model/generate.h"

namespace headwise {

/// Takes away what may not be written. `last` is true for the last token that a text may have.
void forbid(std::span<float> logits, const GenerateOptions& options, bool last);

/// One token of the distribution that the options describe.
int32_t draw(std::span<const float> logits, const GenerateOptions& options, Random& random);

struct Candidate {
  double score = 0;
  int64_t beam = 0;
  int32_t token = 0;
};

/// The `count` best continuations, best first: scores[beam] + logits - lse[beam]. Rows of logits
/// belong to `beams`.
std::vector<Candidate> best_continuations(View<const float, 2> logits, std::span<const float> lse,
                                          std::span<const double> scores, int64_t count);

bool ends(int32_t token, const GenerateOptions& options);

}  // namespace headwise
