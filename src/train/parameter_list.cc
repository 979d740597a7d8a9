// Declares the parameters and tensors of a model.
#include "train/parameter_list.h"

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

SharedParameterState ParameterList::parameter(const std::string& name, std::span<float> values,
                                              std::span<float> gradient, bool decays) {
  if (values.empty()) return nullptr;
  parameters.push_back({.name = name,
                        .values = values,
                        .gradient = gradient,
                        .decays = decays,
                        .requires_grad = !frozen});
  return states.emplace_back(
      std::make_shared<ParameterState>(ParameterState{.requires_grad = !frozen}));
}

void ParameterList::tensor(const std::string& name, std::vector<int64_t> shape,
                           std::vector<TensorPart> parts, const Init& init) {
  tensors.push_back({.stored = {.name = name, .shape = std::move(shape), .parts = std::move(parts)},
                     .init = init,
                     .of_output = in_output});
}

Weights ParameterList::matrix(const LayerName& name, int64_t outputs, int64_t inputs,
                              const Init& init, const MatrixForm& form) {
  Weights weights(outputs, inputs, !frozen);
  weights.bind(parameter(name.parameter, weights.values(), weights.gradient(), form.decays));
  TensorPart part = part_of(weights);
  std::vector<int64_t> shape = {outputs, inputs};
  if (form.transposed) {
    part = {.values = transposed(part.values), .gradient = transposed(part.gradient)};
    shape = {inputs, outputs};
  }
  tensor(name.tensor, std::move(shape), {part}, init);
  return weights;
}

Weights ParameterList::vector(const LayerName& name, int64_t size, const Init& init) {
  Weights weights(1, size, !frozen);
  weights.bind(parameter(name.parameter, weights.values(), weights.gradient(), false));
  tensor(name.tensor, {size}, {part_of(weights)}, init);
  return weights;
}

Table ParameterList::table(const LayerName& name, int64_t rows, int64_t width, const Init& init) {
  return {.tensor = name.tensor,
          .weights = std::make_shared<const Weights>(matrix(name, rows, width, init, {}))};
}

}  // namespace headwise
