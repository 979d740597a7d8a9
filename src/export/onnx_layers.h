// The layers between attentions, as nodes of a graph.
#pragma once

#include <cstdint>
#include <string>

#include "export/onnx_graph.h"
#include "headwise/kernels/activation.h"
#include "headwise/model/config.h"
#include "model/parameter_table.h"
#include "model/weight_reader.h"

namespace headwise::onnx {

class Layers {
 public:
  /// The table is that of the reader's checkpoint.
  Layers(const ModelConfig& config, const ParameterTable& table, Graph& graph, WeightReader& reader)
      : config_(config), table_(table), graph_(graph), reader_(reader) {}

  /// x Wᵀ + b, if there is one. Without outputs nothing, without inputs the bias.
  Value linear(const Value& x, const std::string& name) const;

  /// The norm of the architecture, over the last axis; nothing of nothing.
  Value norm(const Value& x, const std::string& name) const;
  Value activate(const Value& x, Activation activation) const;
  Value scale(const Value& x, float factor) const;

  /// A tensor by its whole name; nothing if the model has no such tensor.
  Value weight(const std::string& name, bool transposed = false) const;
  /// Whether the model has a tensor of this name, and not only a copy of another one.
  bool has(const std::string& name) const { return table_.find(name) != nullptr; }

  const ModelConfig& config() const { return config_; }
  Graph& graph() const { return graph_; }

 private:
  const ModelConfig& config_;
  const ParameterTable& table_;
  Graph& graph_;
  WeightReader& reader_;
};

/// a + b, either of which may be nothing.
Value sum(Graph& graph, const Value& a, const Value& b);

}  // namespace headwise::onnx
