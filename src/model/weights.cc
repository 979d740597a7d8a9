// Weights as vectors and matrices, and their matmuls.
#include "model/weights.h"

#include "headwise/core/shape.h"

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

Weights::Weights(int64_t rows, int64_t columns, bool requires_grad)
    : rows_(rows),
      values_(Buffer::zeros(checked_mul(rows, columns))),
      gradient_(Buffer::zeros(requires_grad ? rows * columns : 0)) {}

View<float, 1> Weights::vector() const { return as_vector(values()); }
View<float, 2> Weights::matrix() const { return as_matrix(values(), rows_); }

View<float, 1> Weights::dvector() const {
  return requires_grad() ? as_vector(gradient()) : View<float, 1>();
}

MatrixGradient Weights::take_gradient() const {
  if (!requires_grad()) return {};
  return {.sums = as_matrix(gradient(), rows_),
          .grad_is_zero = std::exchange(state_->grad_is_zero, false)};
}

void Weights::multiply(View<const float, 2> x, View<float, 2> out, const Epilogue& epilogue) const {
  if (is_packed()) return linear(x, packed_, out, epilogue);
  gemm(x, transposed<const float>(matrix()), out, epilogue);
}

void Weights::multiply_backward(View<const float, 2> dy, const InputGradient& to) const {
  if (to.dx.data() == nullptr) return;
  if (is_packed()) return linear_backward(dy, packed_, to.dx, to.add);
  gemm(dy, matrix(), to.dx, {.accumulate = to.add});
}

void Weights::add_gradient(View<const float, 2> dy, View<const float, 2> x) const {
  if (!requires_grad()) return;
  const auto [sums, grad_is_zero] = take_gradient();
  gemm(transposed(dy), x, sums, {.accumulate = !grad_is_zero});
}

}  // namespace headwise
