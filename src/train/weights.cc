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

Weights::Weights(int64_t size, bool trained)
    : values_(Buffer::zeros(size)), gradient_(Buffer::zeros(trained ? size : 0)) {}

View<float, 1> Weights::vector() const { return as_vector(values()); }
View<float, 2> Weights::matrix(int64_t rows) const { return as_matrix(values(), rows); }

View<float, 1> Weights::dvector() const {
  return trained() ? as_vector(gradient()) : View<float, 1>();
}

MatrixGradient Weights::take_gradient(int64_t rows) const {
  if (!trained()) return {};
  return {.sums = as_matrix(gradient(), rows), .blank = std::exchange(in_pass_->blank, false)};
}

void Weights::add_product(View<const float, 2> dy, View<const float, 2> x) const {
  if (!trained()) return;
  const auto [sums, blank] = take_gradient(dy.extent(1));
  gemm(transposed(dy), x, sums, {.accumulate = !blank});
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
  TensorPart part{.values = weights.matrix(rows), .gradient = as_matrix(weights.gradient(), rows)};
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
  tensor(tensor_name, {size},
         {{.values = weights.matrix(1), .gradient = as_matrix(weights.gradient(), 1)}}, start);
  return weights;
}

}  // namespace headwise
