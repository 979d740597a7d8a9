// Plain weights, as parameters and tensors.
#include "model/weight_source.h"

#include <utility>

namespace headwise {
namespace {

/// All of the weights as one tensor stores them.
TensorPart part_of(const Weights& weights) {
  const View<float, 2> values = weights.matrix();
  if (weights.gradient().empty()) return {.values = values};
  return {.values = values, .gradient = {weights.gradient().data(), values.shape()}};
}

}  // namespace

Weights WeightSource::matrix(const LayerName& name, int64_t outputs, int64_t inputs,
                             const MatrixForm& form) {
  if (packs() && !form.plain) {
    return Weights(packed(name.tensor, outputs, inputs, form.transposed));
  }
  Weights weights(outputs, inputs, !packs());
  weights.bind(parameter(name.parameter, weights.values(), weights.gradient(), form.decays));
  const TensorPart part = part_of(weights);
  if (form.transposed) {
    tensor(name.tensor, {inputs, outputs}, {headwise::transposed(part)});
  } else {
    tensor(name.tensor, {outputs, inputs}, {part});
  }
  return weights;
}

Weights WeightSource::vector(const LayerName& name, int64_t size) {
  Weights weights(1, size, !packs());
  weights.bind(parameter(name.parameter, weights.values(), weights.gradient(), false));
  tensor(name.tensor, {size}, {part_of(weights)});
  return weights;
}

}  // namespace headwise
