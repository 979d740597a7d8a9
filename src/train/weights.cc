// Memory of weights, and the lists that describe it.
#include "train/weights.h"

#include <utility>

#include "headwise/core/shape.h"

namespace headwise {

Weights::Weights(int64_t size, bool trained)
    : values_(Buffer::zeros(size)), gradient_(Buffer::zeros(trained ? size : 0)) {}

View<float, 1> Weights::of(const Buffer& buffer) {
  return buffer.size() == 0 ? View<float, 1>() : buffer.view({buffer.size()});
}

View<float, 2> Weights::of(const Buffer& buffer, int64_t rows) {
  return buffer.size() == 0 ? View<float, 2>() : buffer.view({rows, buffer.size() / rows});
}

MatrixGradient Weights::dmatrix(int64_t rows) const {
  if (!trained()) return {};
  return {.sums = of(gradient_, rows), .blank = std::exchange(in_pass_->blank, false)};
}

Switch Declarations::parameter(const std::string& name, std::span<float> values,
                               std::span<float> gradient, bool decays) {
  if (values.empty()) return nullptr;
  parameters.push_back(
      {.name = name, .values = values, .gradient = gradient, .decays = decays, .trained = !frozen});
  return switches.emplace_back(std::make_shared<InPass>(InPass{.trained = !frozen}));
}

void Declarations::tensor(const std::string& name, std::vector<int64_t> shape,
                          std::vector<TensorPart> parts, const Start& start) {
  tensors.push_back({.stored = {.name = name, .shape = std::move(shape), .parts = std::move(parts)},
                     .start = start,
                     .of_output = in_output});
}

Weights Declarations::matrix(const std::string& parameter_name, const std::string& tensor_name,
                             int64_t rows, int64_t columns, const Start& start,
                             const MatrixForm& form) {
  Weights weights(checked_mul(rows, columns), !frozen);
  weights.obey(parameter(parameter_name, weights.values(), weights.gradient(), form.decays));
  TensorPart part{.values = weights.matrix(rows), .gradient = weights.dmatrix(rows).sums};
  std::vector<int64_t> shape = {rows, columns};
  if (form.transposed) {
    part = {.values = transposed(part.values), .gradient = transposed(part.gradient)};
    shape = {columns, rows};
  }
  tensor(tensor_name, std::move(shape), {part}, start);
  return weights;
}

Weights Declarations::vector(const std::string& parameter_name, const std::string& tensor_name,
                             int64_t size, const Start& start) {
  Weights weights(size, !frozen);
  weights.obey(parameter(parameter_name, weights.values(), weights.gradient(), false));
  tensor(tensor_name, {size}, {{.values = weights.matrix(1), .gradient = weights.dmatrix(1).sums}},
         start);
  return weights;
}

}  // namespace headwise
