// BLEU of a corpus, as sacreBLEU computes it: 13a tokenisation, cased, exponential smoothing.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace headwise {

struct Bleu {
  static constexpr size_t kOrder = 4;

  double score = 0;                         // 0 to 100
  std::array<double, kOrder> precisions{};  // of n-grams, in percent, smoothed
  std::array<int64_t, kOrder> matches{};    // n-grams that the reference has too
  std::array<int64_t, kOrder> totals{};     // n-grams of the hypotheses
  double brevity_penalty = 1;
  int64_t hypothesis_length = 0;  // in tokens
  int64_t reference_length = 0;
};

/// Text i of both belong together; either may be empty. Throws Error if there are none, or not as
/// many of both.
Bleu corpus_bleu(std::span<const std::string> hypotheses, std::span<const std::string> references);

}  // namespace headwise
