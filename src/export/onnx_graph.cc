// Adds to a graph of ONNX, and gives names to what is added.
#include "export/onnx_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace headwise::onnx {

int64_t byte_size(Type type) {
  switch (type) {
    case Type::boolean:
      return 1;
    case Type::float32:
    case Type::int32:
      return 4;
    case Type::int64:
    case Type::float64:
      return 8;
  }
  return 0;
}

int64_t Initializer::bytes() const {
  int64_t bytes = byte_size(type);
  for (const int64_t extent : dims) bytes *= extent;
  return bytes;
}

Value Graph::input(const std::string& name, Type type, std::vector<Extent> dims) {
  inputs.push_back({.name = name, .type = type, .dims = std::move(dims)});
  return name;
}

void Graph::output(const Value& value, const std::string& name, std::vector<Extent> dims) {
  nodes.push_back({.op = "Identity", .name = name, .inputs = {value}, .outputs = {name}});
  outputs.push_back({.name = name, .dims = std::move(dims)});
}

Value Graph::weight(const TensorFiles& files, const TensorInfo& tensor, bool transposed,
                    const std::string& place) {
  Value name = place + tensor.name + (transposed ? ".transposed" : "");
  if (!weights_.insert(name).second) return name;
  Initializer weight{.name = name,
                     .dims = tensor.shape,
                     .files = files,
                     .tensor = &tensor,
                     .transposed = transposed};
  if (transposed) std::ranges::reverse(weight.dims);
  initializers.push_back(std::move(weight));
  return name;
}

template <class T>
Value Graph::constant(Type type, const std::vector<T>& values, std::vector<int64_t> dims) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return constant_bytes(type, std::move(bytes), std::move(dims));
}

Value Graph::constant_bytes(Type type, std::string bytes, std::vector<int64_t> dims) {
  std::string key = fmt::format("{} {} ", static_cast<int>(type), fmt::join(dims, ",")) + bytes;
  const auto [at, fresh] =
      constants_.insert({std::move(key), fmt::format("constant_{}", constants_.size())});
  if (fresh) {
    initializers.push_back(
        {.name = at->second, .type = type, .dims = std::move(dims), .constant = std::move(bytes)});
  }
  return at->second;
}

Value Graph::scalar(float value) { return constant<float>(Type::float32, {value}, {}); }
Value Graph::scalar(double value) { return constant<double>(Type::float64, {value}, {}); }
Value Graph::scalar(int64_t value) { return constant<int64_t>(Type::int64, {value}, {}); }
Value Graph::list(const std::vector<int64_t>& values) {
  return constant(Type::int64, values, {std::ssize(values)});
}
Value Graph::floats(const std::vector<float>& values, std::vector<int64_t> dims) {
  return constant(Type::float32, values, std::move(dims));
}

Node& Graph::add_node(const std::string& op, std::vector<Value> of) {
  const std::string kind = fmt::format("{}/{}", part_, op);
  std::string unique = fmt::format("{}_{}", kind, counts_[kind]++);
  return nodes.emplace_back(Node{.op = op, .name = std::move(unique), .inputs = std::move(of)});
}

Value Graph::node(const std::string& op, std::vector<Value> of, std::vector<Attribute> attributes) {
  Node& added = add_node(op, std::move(of));
  added.attributes = std::move(attributes);
  added.outputs = {added.name};
  return added.name;
}

Value Graph::cast(const Value& x, Type type) {
  return node("Cast", {x}, {{"to", static_cast<int64_t>(type)}});
}
Value Graph::gather(const Value& table, const Value& indices, int64_t axis) {
  return node("Gather", {table, indices}, {{"axis", axis}});
}
Value Graph::reshape(const Value& x, const std::vector<int64_t>& dims) {
  return node("Reshape", {x, list(dims)});
}
Value Graph::transpose(const Value& x, const std::vector<int64_t>& order) {
  return node("Transpose", {x}, {{"perm", order}});
}
Value Graph::unsqueeze(const Value& x, const std::vector<int64_t>& axes) {
  return node("Unsqueeze", {x, list(axes)});
}
Value Graph::squeeze(const Value& x, const std::vector<int64_t>& axes) {
  return node("Squeeze", {x, list(axes)});
}
Value Graph::concat(const std::vector<Value>& parts, int64_t axis) {
  return parts.size() == 1 ? parts.front() : node("Concat", parts, {{"axis", axis}});
}
Value Graph::extent(const Value& x, int64_t axis) {
  return gather(node("Shape", {x}), list({axis}), 0);
}

std::vector<Value> Graph::split(const Value& x, const std::vector<int64_t>& sizes, int64_t axis) {
  std::vector<int64_t> some = sizes;
  std::erase(some, 0);
  std::vector<Value> parts(sizes.size());
  const auto only = std::ranges::find_if(sizes, [](int64_t size) { return size > 0; });
  if (some.size() == 1) {
    parts[only - sizes.begin()] = x;
    return parts;
  }
  const Value split_sizes = list(some);
  Node& added = add_node("Split", {x, split_sizes});
  added.attributes = {{"axis", axis}};
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    parts[i] = fmt::format("{}:{}", added.name, i);
    added.outputs.push_back(parts[i]);
  }
  return parts;
}

std::pair<Value, Value> Graph::largest(const Value& x, int64_t count) {
  const Value how_many = list({count});
  Node& added = add_node("TopK", {x, how_many});
  added.attributes = {{"axis", int64_t{-1}}};
  added.outputs = {added.name + ":0", added.name + ":1"};
  return {added.outputs[0], added.outputs[1]};
}

void Graph::drop_unused() {
  std::set<Value> used;
  for (const Port& port : outputs) used.insert(port.name);
  std::vector<Node> kept;
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const auto is_used = [&](const Value& value) { return used.contains(value); };
    if (!std::ranges::any_of(node->outputs, is_used)) continue;
    used.insert(node->inputs.begin(), node->inputs.end());
    kept.push_back(std::move(*node));
  }
  std::ranges::reverse(kept);
  nodes = std::move(kept);
  std::erase_if(initializers, [&](const Initializer& each) { return !used.contains(each.name); });
}

}  // namespace headwise::onnx
