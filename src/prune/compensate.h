// What kept heads and biases can do about what dropped heads said.
#pragma once

#include <span>
#include <vector>

#include "headwise/model/model.h"
#include "headwise/prune/prune.h"

namespace headwise {

/// New weights of an attention.
struct Correction {
  std::vector<float> output{};  // [C, H Dv], or as it was
  std::vector<float> bias{};    // [C], or as it was
};

/// One per attention of the model, of heads whose gate is 0. Throws Error for mean where there is
/// no output bias.
std::vector<Correction> compensate(const Model& model, std::span<const float> gates,
                                   const PruneOptions& options);

/// Calls run(source, target) for texts of about so many rows together.
template <class Run>
void for_each_batch(const TokenBatch& source, const TokenBatch& target, int64_t rows,
                    const Run& run) {
  TokenBatch sources, targets;
  for (int64_t b = 0; b < source.sequences(); ++b) {
    const auto add = [b](const TokenBatch& from, TokenBatch& to) {
      if (from.sequences() == 0) return;
      const int64_t begin = from.offsets[b], count = from.offsets[b + 1] - begin;
      const auto types = from.types.empty() ? std::span<const int32_t>()
                                            : std::span(from.types).subspan(begin, count);
      to.add(std::span(from.ids).subspan(begin, count), types);
    };
    add(source, sources);
    add(target, targets);
    if (sources.rows() < rows && b + 1 < source.sequences()) continue;
    run(sources, targets);
    sources = targets = {};
  }
}

}  // namespace headwise
