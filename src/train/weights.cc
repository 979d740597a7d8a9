// Memory of weights, and the lists that describe it.
#include "train/weights.h"

#include <utility>

#include "headwise/core/shape.h"
#include "headwise/kernels/gemm.h"

namespace headwise {
namespace {

View<float, 1> as_vector(std::span<float> numbers) {
  return numbers.empty() ? View<float, 1>() : View<float, 1>(numbers.data(), {std::ssize(numbers)});
}

View<float, 2> as_matrix(std::span<float> numbers, int64_t rows) {
  if (numbers.empty()) return {};
  return {numbers.data(), {rows, std::ssize(numbers) / rows}};
}

}  // namespace

Weights::Weights(int64_t size, bool requires_grad)
    : values_(Buffer::zeros(size)), gradient_(Buffer::zeros(requires_grad ? size : 0)) {}

View<float, 1> Weights::vector() const { return as_vector(values()); }
View<float, 2> Weights::matrix(int64_t rows) const { return as_matrix(values(), rows); }

View<float, 1> Weights::dvector() const {
  return requires_grad() ? as_vector(gradient()) : View<float, 1>();
}

MatrixGradient Weights::take_gradient(int64_t rows) const {
  if (!requires_grad()) return {};
  return {.sums = as_matrix(gradient(), rows),
          .grad_is_zero = std::exchange(state_->grad_is_zero, false)};
}

void Weights::add_product(View<const float, 2> dy, View<const float, 2> x) const {
  if (!requires_grad()) return;
  const auto [sums, grad_is_zero] = take_gradient(dy.extent(1));
  gemm(transposed(dy), x, sums, {.accumulate = !grad_is_zero});
}

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

Weights ParameterList::matrix(const std::string& parameter_name, const std::string& tensor_name,
                              int64_t rows, int64_t columns, const Init& init,
                              const MatrixForm& form) {
  Weights weights(checked_mul(rows, columns), !frozen);
  weights.bind(parameter(parameter_name, weights.values(), weights.gradient(), form.decays));
  TensorPart part{.values = weights.matrix(rows), .gradient = as_matrix(weights.gradient(), rows)};
  std::vector<int64_t> shape = {rows, columns};
  if (form.transposed) {
    part = {.values = transposed(part.values), .gradient = transposed(part.gradient)};
    shape = {columns, rows};
  }
  tensor(tensor_name, std::move(shape), {part}, init);
  return weights;
}

Weights ParameterList::vector(const std::string& parameter_name, const std::string& tensor_name,
                              int64_t size, const Init& init) {
  Weights weights(size, !frozen);
  weights.bind(parameter(parameter_name, weights.values(), weights.gradient(), false));
  tensor(tensor_name, {size},
         {{.values = weights.matrix(1), .gradient = as_matrix(weights.gradient(), 1)}}, init);
  return weights;
}

}  // namespace headwise
