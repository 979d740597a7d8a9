// Output layers and pooling as nodes.
#include "export/onnx_output.h"

#include <limits>
#include <utility>
#include <variant>

#include "model/families/family.h"
#include "model/sentence_modules.h"
#include "model/task_head.h"

namespace headwise::onnx {
namespace {

/// Scores [B, N, outputs] or [B, outputs] under the names that transformers has for them.
void name_scores(const Layers& layers, const HiddenStates& hidden, const TaskNames& names,
                 const Value& scores) {
  Graph& graph = layers.graph();
  const std::vector<Extent> tokens = {"batch", hidden.tokens};
  switch (layers.config().task) {
    case Task::answer: {
      const std::vector<Value> ends = graph.split(scores, {1, 1}, 2);
      graph.output(graph.squeeze(ends[0], {2}), "start_logits", tokens);
      graph.output(graph.squeeze(ends[1], {2}), "end_logits", tokens);
      return;
    }
    case Task::detect:
      graph.output(graph.squeeze(scores, {2}), "logits", tokens);
      return;
    default:
      break;
  }
  std::vector<Extent> dims = {"batch"};
  if (names.rows == TaskRows::all) dims.push_back(hidden.tokens);
  dims.push_back(outputs_of(layers.config()));
  graph.output(scores, "logits", dims);
}

/// The mean of rows, or another sum of them, [B, C]: that of rows times weights [B, N].
Value weighted(Graph& graph, const Value& rows, const Value& weights) {
  return graph.squeeze(graph.product(graph.unsqueeze(weights, {1}), rows), {1});
}

Value pooled(const Layers& layers, const HiddenStates& hidden, Pool mode) {
  Graph& graph = layers.graph();
  Texts& texts = hidden.texts;
  const Value there = graph.cast(texts.mask(), Type::float32);
  const auto total = [&](const Value& of) {
    return graph.node("ReduceSum", {of, graph.list({1})});
  };
  switch (mode) {
    case Pool::cls:
      return texts.at(Texts::End::first, hidden.rows);
    case Pool::last:
      return texts.at(Texts::End::last, hidden.rows);
    case Pool::max: {
      const Value least = graph.scalar(std::numeric_limits<float>::lowest());
      const Value real = graph.unsqueeze(graph.cast(texts.mask(), Type::boolean), {2});
      return graph.node("ReduceMax", {graph.node("Where", {real, hidden.rows, least})},
                        {{"axes", std::vector<int64_t>{1}}, {"keepdims", int64_t{0}}});
    }
    case Pool::mean:
      return weighted(graph, hidden.rows, graph.node("Div", {there, total(there)}));
    case Pool::mean_sqrt:
      return weighted(graph, hidden.rows,
                      graph.node("Div", {there, graph.node("Sqrt", {total(there)})}));
    case Pool::weighted_mean: {
      const Value from_one =
          graph.add(graph.cast(texts.positions(), Type::float32), graph.scalar(1.f));
      const Value weights = graph.multiply(there, from_one);
      return weighted(graph, hidden.rows, graph.node("Div", {weights, total(weights)}));
    }
  }
  return {};
}

Value dense(const Layers& layers, const DenseModule& module, const Value& x,
            const std::filesystem::path& folder) {
  Graph& graph = layers.graph();
  const TensorFiles files = TensorFiles::open(folder / module.place);
  const std::string place = module.place.generic_string() + "/";
  Value y = graph.product(x, graph.weight(files, *files.find("linear.weight"), true, place));
  if (module.linear.bias().exists()) {
    y = graph.add(y, graph.weight(files, *files.find("linear.bias"), false, place));
  }
  return layers.activate(y, module.activation);
}

Value normalized(Graph& graph, const Value& x) {
  const Value length = graph.node("ReduceL2", {x}, {{"axes", std::vector<int64_t>{1}}});
  return graph.node("Div", {x, graph.node("Max", {length, graph.scalar(1e-12f)})});
}

}  // namespace

bool add_task_output(const Layers& layers, const HiddenStates& hidden, const std::string& prefix) {
  const ModelConfig& config = layers.config();
  Graph& graph = layers.graph();
  const TaskNames names = task_names(config, prefix);
  if (names.output.empty()) return false;
  graph.enter("output");
  Value x = hidden.rows;
  if (names.rows != TaskRows::all) {
    x = hidden.texts.at(names.rows == TaskRows::first ? Texts::End::first : Texts::End::last, x);
  }
  x = layers.scale(x, config.output_scale);
  for (const TaskStep& step : names.steps) {
    x = layers.activate(layers.linear(x, step.dense), step.activation);
    if (!step.norm.empty()) x = layers.norm(x, step.norm);
  }
  const std::string own = names.output + ".weight", beside = names.output + ".bias";
  // A tied matrix is in the graph already, as the embedding.
  const Value matrix =
      layers.has(own) ? layers.weight(own, true) : graph.transpose(layers.weight(own), {1, 0});
  const Value bias = layers.weight(layers.has(beside) ? beside : names.bias);
  name_scores(layers, hidden, names, sum(graph, graph.product(x, matrix), bias));
  return true;
}

void add_hidden_output(const Layers& layers, const HiddenStates& hidden) {
  layers.graph().output(hidden.rows, "last_hidden_state",
                        {"batch", hidden.tokens, layers.config().width});
}

bool add_sentence_output(const Layers& layers, const HiddenStates& hidden,
                         const std::filesystem::path& folder) {
  Graph& graph = layers.graph();
  graph.enter("sentence");
  Value x;
  int64_t width = 0;
  for (const SentenceModule& module : read_sentence_modules(folder)) {
    if (const auto* pooling = std::get_if<PoolingModule>(&module)) {
      std::vector<Value> parts;
      for (const Pool mode : pooling->modes) parts.push_back(pooled(layers, hidden, mode));
      x = graph.concat(parts, 1);
      width = layers.config().width * std::ssize(parts);
    } else if (const auto* layer = std::get_if<DenseModule>(&module)) {
      x = dense(layers, *layer, x, folder);
      width = layer->linear.outputs();
    } else {
      x = normalized(graph, x);
    }
  }
  if (x.empty()) return false;
  graph.output(x, "sentence_embedding", {"batch", width});
  return true;
}

}  // namespace headwise::onnx
