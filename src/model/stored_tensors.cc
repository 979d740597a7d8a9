// Copies between the order of a checkpoint and the order of a model.
#include "model/stored_tensors.h"

#include "io/from_float.h"

namespace headwise {

void scatter(std::span<const float> numbers, std::span<const TensorPart> to) {
  const float* next = numbers.data();
  for (const TensorPart& part : to) {
    for (int64_t row = 0; row < part.values.extent(0); ++row) {
      for (int64_t c = 0; c < part.values.extent(1); ++c) part.values(row, c) = *next++;
    }
  }
}

std::vector<float> gather(const StoredTensor& from, Which which) {
  std::vector<float> numbers;
  for (const TensorPart& part : from.parts) {
    const View<float, 2> view = which == Which::values ? part.values : part.gradient;
    for (int64_t row = 0; row < view.extent(0); ++row) {
      for (int64_t c = 0; c < view.extent(1); ++c) numbers.push_back(view(row, c));
    }
  }
  return numbers;
}

std::vector<std::byte> bytes_of(const StoredTensor& tensor) {
  const std::vector<float> numbers = gather(tensor, Which::values);
  std::vector<std::byte> bytes(numbers.size() * byte_size(tensor.dtype));
  from_float(tensor.dtype, numbers, bytes);
  return bytes;
}

}  // namespace headwise
