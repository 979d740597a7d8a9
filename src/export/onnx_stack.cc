// Embeddings and blocks of a stack as nodes.
#include "export/onnx_stack.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "model/layers.h"

namespace headwise::onnx {

StackGraph::StackGraph(Layers layers, Side side, const std::string& prefix, Texts& texts,
                       Source source)
    : layers_(layers),
      graph_(layers.graph()),
      config_(layers.config()),
      side_(side),
      stack_(stack_config(config_, side)),
      naming_(config_, side, prefix),
      texts_(texts),
      source_(std::move(source)) {}

Value StackGraph::build(const Value& ids, const Value& types) {
  graph_.enter("embeddings");
  Value x = embed(ids, types);
  for (int64_t layer = 0; layer < stack_.layers(); ++layer) x = block(layer, x);
  graph_.enter("final");
  if (naming_.stack().final_norm.empty()) return x;
  return layers_.norm(x, naming_.full(naming_.stack().final_norm));
}

/// The rows of the table of positions. RoBERTa counts from pad + 1, and padding inside a text has
/// the row of padding.
Value StackGraph::position_rows(const Value& ids) {
  if (config_.position_offset == 0) return texts_.positions();
  const Value pad = graph_.scalar(int64_t{*config_.pad});
  const Value is_pad = graph_.node("Equal", {ids, pad});
  const Value counts =
      graph_.multiply(graph_.cast(graph_.node("Not", {is_pad}), Type::int64), texts_.mask());
  const Value count = graph_.node("CumSum", {counts, graph_.scalar(int64_t{1})});
  return graph_.add(graph_.multiply(count, counts), pad);
}

Value StackGraph::embed(const Value& ids, const Value& types) {
  const std::string word = naming_.full(naming_.stack().word) + ".weight";
  Value x = layers_.scale(graph_.gather(layers_.weight(word), ids, 0), config_.embedding_scale);
  const std::string position = naming_.full(naming_.stack().position) + ".weight";
  if (config_.positions == PositionKind::learned) {
    x = graph_.add(x, graph_.gather(layers_.weight(position), position_rows(ids), 0));
  } else if (config_.positions == PositionKind::sinusoidal) {
    Value table = layers_.weight(position);
    if (table.empty()) {
      const int64_t P = config_.max_positions;
      std::vector<float> rows(P * config_.width);
      std::vector<int32_t> all(P);
      std::iota(all.begin(), all.end(), 0);
      sinusoidal_positions(P, config_.width)
          .gather(all, 1, false, View<float, 2>(rows.data(), {P, config_.width}));
      table = graph_.floats(rows, {P, config_.width});
    }
    x = graph_.add(x, graph_.gather(table, texts_.positions(), 0));
  }
  const WeightNames& names = naming_.model();
  if (config_.token_types > 0) {
    const Value table = layers_.weight(naming_.full(names.token_type) + ".weight");
    x = graph_.add(x, types.empty() ? table : graph_.gather(table, types, 0));
  }
  if (config_.embedding_norm) x = layers_.norm(x, naming_.full(names.embedding_norm));
  if (config_.embedding_width == config_.width) return x;
  return layers_.linear(x, naming_.full(names.embedding_projection));
}

template <class F>
Value StackGraph::residual(int64_t layer, std::string_view norm, const Value& x, const F& f) {
  const auto normed = [&](const Value& rows) {
    return layers_.norm(rows, naming_.in_layer(layer, norm));
  };
  if (config_.norm_place == NormPlace::before) return sum(graph_, x, f(normed(x)));
  return normed(sum(graph_, x, f(x)));
}

Value StackGraph::feed_forward(int64_t layer, const Value& x) {
  const StackNames& names = naming_.stack();
  const auto linear = [&](const Value& rows, std::string_view name) {
    return layers_.linear(rows, naming_.in_layer(layer, name));
  };
  Value hidden = linear(x, config_.glu ? names.glu_up : names.up);
  if (config_.glu) {
    const Value gate = layers_.activate(linear(x, names.gate), config_.activation);
    hidden = graph_.multiply(gate, hidden);
  } else {
    hidden = layers_.activate(hidden, config_.activation);
  }
  return linear(hidden, names.down);
}

Value StackGraph::block(int64_t layer, const Value& x) {
  const StackNames& names = naming_.stack();
  const auto attend_self = [&](const Value& from) {
    graph_.enter(fmt::format("L{}.self", layer));
    return attend(layer, false, from);
  };
  const auto attend_cross = [&](const Value& from) {
    graph_.enter(fmt::format("L{}.cross", layer));
    return attend(layer, true, from);
  };
  const auto feed = [&](const Value& from) {
    graph_.enter(fmt::format("L{}.feed_forward", layer));
    return feed_forward(layer, from);
  };
  Value y = residual(layer, names.self.norm, x, attend_self);
  if (config_.parallel) {
    const Value from = layers_.norm(x, naming_.in_layer(layer, names.feed_forward_norm));
    return graph_.add(y, feed(from));
  }
  if (!stack_.cross.empty()) y = residual(layer, names.cross.norm, y, attend_cross);
  return residual(layer, names.feed_forward_norm, y, feed);
}

}  // namespace headwise::onnx
