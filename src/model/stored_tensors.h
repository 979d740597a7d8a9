// Between tensors of a checkpoint and where their numbers lie in a model.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "headwise/model/stored_tensor.h"

namespace headwise {

/// Numbers of a tensor, in its order, into the model.
void scatter(std::span<const float> numbers, std::span<const TensorPart> to);

/// The numbers of a tensor, or their gradients, in its order.
enum class Which { values, gradients };
std::vector<float> gather(const StoredTensor& from, Which which);

/// The bytes of a tensor in its type, as a checkpoint has them.
std::vector<std::byte> bytes_of(const StoredTensor& tensor);

}  // namespace headwise
