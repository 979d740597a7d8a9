// The specification of gemm: obvious loops, sums in double.
#include "kernels/gemm_ref.h"

#include <cmath>

namespace headwise {
double activate_ref(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
  }
  return x;
}

void gemm_ref(View<const float, 2> a, View<const float, 2> b, View<float, 2> c,
              const Epilogue& epilogue) {
  for (int64_t m = 0; m < c.extent(0); ++m) {
    for (int64_t n = 0; n < c.extent(1); ++n) {
      double sum = epilogue.accumulate ? c(m, n) : 0;
      for (int64_t k = 0; k < a.extent(1); ++k) sum += double{a(m, k)} * b(k, n);
      if (epilogue.bias.data() != nullptr) sum += epilogue.bias(n);
      sum = activate_ref(epilogue.activation, sum);
      if (epilogue.residual.data() != nullptr) sum += epilogue.residual(m, n);
      c(m, n) = static_cast<float>(sum);
    }
  }
}

}  // namespace headwise
