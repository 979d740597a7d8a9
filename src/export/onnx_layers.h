// The layers between attentions, as nodes of a graph.
#pragma once

#include <cstdint>
#include <string>

#include "export/onnx_graph.h"
#include "headwise/kernels/activation.h"
#include "headwise/model/config.h"
#include "model/weight_reader.h"

namespace headwise::onnx {

/// A matrix as a checkpoint has it.
struct LinearShape {
  int64_t outputs = 0, inputs = 0;
  bool bias = true;
  bool transposed = false;  // stored as [inputs, outputs]
};

class Layers {
 public:
  Layers(const ModelConfig& config, Graph& graph, WeightReader& reader)
      : config_(config), graph_(graph), reader_(reader) {}

  /// x Wᵀ + b. Without outputs nothing, without inputs the bias.
  Value linear(const Value& x, const std::string& name, const LinearShape& shape) const;

  /// The norm of the architecture, over the last axis; nothing of nothing.
  Value norm(const Value& x, const std::string& name, int64_t width) const;
  Value activate(const Value& x, Activation activation) const;
  Value scale(const Value& x, float factor) const;

  Value weight(const TensorInfo& tensor, bool transposed = false) const {
    reader_.check_finite(tensor);
    return graph_.weight(reader_.files(), tensor, transposed);
  }

  const ModelConfig& config() const { return config_; }
  Graph& graph() const { return graph_; }
  WeightReader& reader() const { return reader_; }

 private:
  const ModelConfig& config_;
  Graph& graph_;
  WeightReader& reader_;
};

/// a + b, either of which may be nothing.
Value sum(Graph& graph, const Value& a, const Value& b);

}  // namespace headwise::onnx
