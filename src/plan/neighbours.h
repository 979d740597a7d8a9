// Which texts are near each other, before and after heads are removed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace headwise {

/// Of the `of` nearest neighbours of each text among the others, by the cosine of embeddings of
/// unit length, how many are the same in both, in the mean over texts. Of equal distances the first
/// text is nearer.
double kept_neighbours(std::span<const std::vector<float>> before,
                       std::span<const std::vector<float>> after, int64_t of);

}  // namespace headwise
