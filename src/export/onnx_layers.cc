// Linear layers, norms and activations in operators of ONNX.
#include "export/onnx_layers.h"

#include <numbers>

namespace headwise::onnx {

Value sum(Graph& graph, const Value& a, const Value& b) {
  return a.empty() ? b : b.empty() ? a : graph.add(a, b);
}

Value Layers::linear(const Value& x, const std::string& name, const LinearShape& shape) const {
  const TensorInfo& matrix = shape.transposed
                                 ? reader_.take(name + ".weight", {shape.inputs, shape.outputs})
                                 : reader_.take(name + ".weight", {shape.outputs, shape.inputs});
  const TensorInfo* const bias =
      shape.bias ? &reader_.take(name + ".bias", {shape.outputs}) : nullptr;
  if (shape.outputs == 0) return {};
  const Value product =
      shape.inputs == 0 ? "" : graph_.product(x, weight(matrix, !shape.transposed));
  return sum(graph_, product, bias == nullptr ? "" : weight(*bias));
}

Value Layers::norm(const Value& x, const std::string& name, int64_t width) const {
  if (config_.norm == NormKind::none) return x;
  const TensorInfo& gain = reader_.take(name + ".weight", {width});
  const TensorInfo* const bias =
      config_.norm == NormKind::layer ? &reader_.take(name + ".bias", {width}) : nullptr;
  if (x.empty()) return {};
  if (bias != nullptr) {
    return graph_.node("LayerNormalization", {x, weight(gain), weight(*bias)},
                       {{"axis", int64_t{-1}}, {"epsilon", config_.epsilon}});
  }
  const Value squares =
      graph_.node("ReduceMean", {graph_.multiply(x, x)}, {{"axes", std::vector<int64_t>{-1}}});
  const Value root = graph_.node("Sqrt", {graph_.add(squares, graph_.scalar(config_.epsilon))});
  return graph_.multiply(graph_.node("Div", {x, root}), weight(gain));
}

Value Layers::scale(const Value& x, float factor) const {
  return factor == 1 ? x : graph_.multiply(x, graph_.scalar(factor));
}

Value Layers::activate(const Value& x, Activation activation) const {
  // x (1 + f) / 2
  const auto half = [&](const Value& f) {
    return scale(graph_.multiply(x, graph_.add(f, graph_.scalar(1.f))), 0.5f);
  };
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return graph_.node("Relu", {x});
    case Activation::tanh:
      return graph_.node("Tanh", {x});
    case Activation::silu:
      return graph_.multiply(x, graph_.node("Sigmoid", {x}));
    case Activation::gelu:
      return half(graph_.node("Erf", {scale(x, std::numbers::sqrt2_v<float> / 2)}));
    case Activation::gelu_tanh: {
      const Value cube = graph_.multiply(graph_.multiply(x, x), x);
      const Value inner = graph_.add(x, scale(cube, 0.044715f));
      constexpr double kRoot = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // √(2/π)
      return half(graph_.node("Tanh", {scale(inner, static_cast<float>(kRoot))}));
    }
  }
  return x;
}

}  // namespace headwise::onnx
