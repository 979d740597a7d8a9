// Texts made up for golden models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "headwise/model/model.h"

namespace headwise {

/// Texts of these lengths, of tokens that are none of the special ones.
inline TokenBatch texts_of(int64_t vocabulary, const std::vector<int64_t>& lengths, int32_t seed) {
  TokenBatch batch;
  int64_t next = seed;
  for (const int64_t length : lengths) {
    std::vector<int32_t> text;
    for (int64_t i = 0; i < length; ++i) {
      text.push_back(static_cast<int32_t>(3 + next++ * 37 % (vocabulary - 3)));
    }
    batch.add(text);
  }
  return batch;
}

}  // namespace headwise
