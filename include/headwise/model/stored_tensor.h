// A tensor of a checkpoint, and where its numbers lie in a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/core/view.h"
#include "headwise/io/tensor_file.h"

namespace headwise {

/// Some rows of a tensor as a checkpoint stores it, where they lie in the model.
struct TensorPart {
  View<float, 2> values{};
  View<float, 2> gradient{};  // empty: never trained, such as the sinusoids of Marian

  TensorPart rows(int64_t begin, int64_t end) const {
    return {.values = values.rows(begin, end),
            .gradient = gradient.data() == nullptr ? gradient : gradient.rows(begin, end)};
  }
};

inline TensorPart transposed(const TensorPart& part) {
  return {.values = transposed(part.values), .gradient = transposed(part.gradient)};
}

/// A tensor as a checkpoint stores it; the rows of its parts, one after the other, are its numbers.
struct StoredTensor {
  std::string name{};
  std::vector<int64_t> shape{};
  Dtype dtype = Dtype::kF32;  // of the file
  std::vector<TensorPart> parts{};
};

}  // namespace headwise
