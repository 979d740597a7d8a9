// Choosing the next token.
#include "model/next_token.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "headwise/core/error.h"

namespace headwise {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

bool ends(int32_t token, const GenerateOptions& options) {
  return std::ranges::find(options.eos, token) != options.eos.end();
}

void forbid(std::span<float> logits, const GenerateOptions& options, bool last) {
  if (last && options.forced_eos) {
    std::ranges::fill(logits, kForbidden);
    logits[*options.forced_eos] = 0;
    return;
  }
  for (const int32_t token : options.suppressed) logits[token] = kForbidden;
}

int32_t draw(std::span<const float> logits, const GenerateOptions& options, Random& random) {
  if (std::ranges::any_of(logits, [](float x) { return std::isnan(x); })) {
    throw Error({.what = "the model's output is not a number"});
  }
  std::vector<int32_t> tokens(logits.size());
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto more = [&](int32_t a, int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  if (options.top_k > 0 && options.top_k < std::ssize(tokens)) {
    std::nth_element(tokens.begin(), tokens.begin() + options.top_k, tokens.end(), more);
    tokens.resize(options.top_k);
  }
  std::ranges::sort(tokens, more);
  std::vector<double> weights;
  for (const int32_t token : tokens) {
    weights.push_back(
        std::exp((double{logits[token]} - logits[tokens.front()]) / options.temperature));
  }
  const double total = std::accumulate(weights.begin(), weights.end(), 0.);
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < options.top_p * total)) {
    kept += weights[count++];
  }
  double at = random.uniform() * kept;
  for (size_t i = 0; i + 1 < count; ++i) {
    if (at < weights[i]) return tokens[i];
    at -= weights[i];
  }
  return tokens[count - 1];
}

std::vector<Candidate> best_continuations(View<const float, 2> logits, std::span<const float> lse,
                                          std::span<const double> scores, int64_t count) {
  const auto better = [](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
  };
  std::vector<Candidate> heap;  // its front is the worst of the best
  for (int64_t beam = 0; beam < logits.extent(0); ++beam) {
    const double base = scores[beam] - lse[beam];
    for (int64_t token = 0; token < logits.extent(1); ++token) {
      const Candidate candidate{base + logits(beam, token), beam, static_cast<int32_t>(token)};
      if (std::ssize(heap) == count) {
        if (!better(candidate, heap.front())) continue;
        std::ranges::pop_heap(heap, better);
        heap.pop_back();
      }
      heap.push_back(candidate);
      std::ranges::push_heap(heap, better);
    }
  }
  std::ranges::sort_heap(heap, better);
  return heap;
}

}  // namespace headwise
