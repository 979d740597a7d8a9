// Linear layers, norms and activations in operators of ONNX.
#include "export/onnx_layers.h"

#include <numbers>

namespace headwise::onnx {

Value sum(Graph& graph, const Value& a, const Value& b) {
  return a.empty() ? b : b.empty() ? a : graph.add(a, b);
}

Value Layers::weight(const std::string& name, bool transposed) const {
  const ParameterTensor* const tensor = table_.find_or_repeated(name);
  if (tensor == nullptr) return {};
  const TensorInfo& stored = reader_.take(tensor->name, tensor->shape);
  reader_.check_finite(stored);
  return graph_.weight(reader_.files(), stored, transposed);
}

Value Layers::linear(const Value& x, const std::string& name) const {
  const ParameterTensor& matrix = *table_.find(name + ".weight");
  const int64_t outputs = matrix.shape[matrix.transposed ? 1 : 0];
  const int64_t inputs = matrix.shape[matrix.transposed ? 0 : 1];
  if (outputs == 0) return {};
  const Value product =
      inputs == 0 ? "" : graph_.product(x, weight(matrix.name, !matrix.transposed));
  return sum(graph_, product, weight(name + ".bias"));
}

Value Layers::norm(const Value& x, const std::string& name) const {
  if (config_.norm == NormKind::none) return x;
  if (x.empty()) return {};
  const std::string gain = name + ".weight";
  if (config_.norm == NormKind::layer) {
    return graph_.node("LayerNormalization", {x, weight(gain), weight(name + ".bias")},
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
