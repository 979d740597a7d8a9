// Writes weights by hand: heads that attend to what is selected and to nothing else, and steps made
// of two ReLUs each.
#include "construct/circuit_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "headwise/core/error.h"

namespace headwise {
namespace {

/// A key that fulfils one condition less than another one scores this much less. A key half of it
/// below the largest has a weight of exp(-128), which float32 rounds to 0. A power of two: products
/// with 1 are exact.
constexpr float kScore = 256;

/// Of the label that is the answer; the others have 0. Its probability is then 1 in float32.
constexpr float kLogit = 32;

/// Steps of sequences whose values are nearer than this are not safe from rounding.
constexpr double kSmallestGap = 1e-5;

float power_of_two_above(double value) {
  return static_cast<float>(std::exp2(std::ceil(std::log2(value))));
}

struct Weighted {
  int64_t column = 0;
  float weight = 0;
};

/// A unit of a feed-forward layer: max(0, in + bias) is written to the columns of `out`.
struct Unit {
  std::vector<Weighted> in{};
  float bias = 0;
  std::vector<Weighted> out{};
};

NamedTensor zeros(std::string name, std::vector<int64_t> shape) {
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  return {std::move(name), std::move(shape), std::vector<float>(size)};
}

float& at(NamedTensor& matrix, int64_t row, int64_t column) {
  return matrix.values[row * matrix.shape[1] + column];
}

class UnitBuilder {
 public:
  UnitBuilder(const ProgramGraph& graph, const PossibleValues& values, const Circuit& circuit)
      : graph_(graph), values_(values), circuit_(circuit) {}

  std::vector<Unit> units(const FeedPart& part) {
    part_ = &part;
    out_ = &circuit_.variables[part.out];
    units_.clear();
    std::vector<int> one_hot = part.inputs;
    const Variable& last = circuit_.variables[part.inputs.back()];
    const bool steps = last.form != Form::one_hot;
    if (steps) one_hot.pop_back();
    std::vector<int> nodes;
    for (const int input : one_hot) nodes.push_back(circuit_.variables[input].node);
    values_.for_each(nodes, [&](const std::map<int, ProgramValue>& known) {
      std::vector<int64_t> columns;
      for (const int input : one_hot) {
        const Variable& variable = circuit_.variables[input];
        columns.push_back(variable.column + values_.index(variable.node, known.at(variable.node)));
      }
      steps ? add_steps(last, columns, known) : add(columns, graph_.evaluate(part.node, known));
    });
    return std::move(units_);
  }

 private:
  /// The columns of a value, with its sign.
  std::vector<Weighted> encoded(const ProgramValue& value, float sign) const {
    if (out_->form == Form::one_hot) {
      return {{out_->column + values_.index(out_->node, value), sign}};
    }
    return {{out_->column, sign * static_cast<float>(number_of(value))}};
  }

  /// Writes a value where all of these columns are 1.
  void add(const std::vector<int64_t>& columns, const ProgramValue& value) {
    Unit unit{.bias = 1 - static_cast<float>(columns.size()), .out = encoded(value, 1)};
    for (const int64_t column : columns) unit.in.push_back({column, 1});
    units_.push_back(std::move(unit));
  }

  /// What a column holds for a value, and the sign by which it ascends with the value.
  static std::pair<double, float> held(const Variable& variable, const ProgramValue& value) {
    const double number = number_of(value);
    if (variable.form == Form::number) return {number, 1.f};
    return {-1 / (1 + number), -1.f};
  }

  /// The value at the lowest number where all of these columns are 1, and a step up to the next
  /// one wherever it changes. A step is max(0, y + 1/2) - max(0, y - 1/2): 0 up to y = -1/2, and 1
  /// from y = 1/2 on; y is at least 7/8 away from 0 at both values. Where a column is 0, both
  /// units are 0.
  void add_steps(const Variable& variable, std::vector<int64_t> columns,
                 std::map<int, ProgramValue> known) {
    if (columns.empty()) columns.push_back(Circuit::kToken);
    const std::span<const ProgramValue> numbers = values_.of(variable.node);
    const double lowest = held(variable, numbers.front()).first;
    const double highest = held(variable, numbers.back()).first;
    ProgramValue before;
    for (size_t i = 0; i < numbers.size(); ++i) {
      known[variable.node] = numbers[i];
      const ProgramValue value = graph_.evaluate(part_->node, known);
      if (i == 0) add(columns, value);
      if (i > 0 && value != before) {
        const auto [x, sign] = held(variable, numbers[i]);
        const double below = held(variable, numbers[i - 1]).first;
        check_gap(variable, x - below);
        const float slope = power_of_two_above(2 / (x - below));
        const auto middle = static_cast<float>(std::round((x + below) / 2 * slope * 4) / 4);
        const double reach = std::max(std::abs(lowest), std::abs(highest)) * slope;
        const float gate = power_of_two_above(reach + std::abs(middle) + 1);
        add_step(columns, {variable.column, sign * slope}, middle, gate,
                 {{before, -1.f}, {value, 1.f}});
      }
      before = value;
    }
  }

  void add_step(const std::vector<int64_t>& columns, const Weighted& number, float middle,
                float gate, const std::vector<std::pair<ProgramValue, float>>& change) {
    for (const float side : {1.f, -1.f}) {
      Unit unit{.bias = side / 2 - middle - gate * static_cast<float>(columns.size())};
      unit.in.push_back(number);
      for (const int64_t column : columns) unit.in.push_back({column, gate});
      for (const auto& [value, sign] : change) {
        for (const Weighted& out : encoded(value, sign * side)) unit.out.push_back(out);
      }
      units_.push_back(std::move(unit));
    }
  }

  void check_gap(const Variable& variable, double gap) const {
    if (gap >= kSmallestGap) return;
    throw Error({.what = "program: values are too near each other for float32",
                 .where = graph_.definition(variable.node),
                 .got = fmt::format("{:.2g}", gap),
                 .expected = fmt::format("at least {:.2g}", kSmallestGap),
                 .hint = "take a shorter length"});
  }

  const ProgramGraph& graph_;
  const PossibleValues& values_;
  const Circuit& circuit_;
  const FeedPart* part_ = nullptr;
  const Variable* out_ = nullptr;
  std::vector<Unit> units_;
};

class WeightBuilder {
 public:
  WeightBuilder(const ProgramGraph& graph, const PossibleValues& values, const Circuit& circuit)
      : graph_(graph), values_(values), circuit_(circuit) {}

  CircuitShape shape() {
    CircuitShape shape;
    for (const CircuitLayer& layer : circuit_.layers) {
      int64_t head_dim = 1, value_dim = 1;
      for (const HeadPart& head : layer.heads) {
        int64_t scores = 1;  // of [BOS]
        for (const int key : head.keys) scores += circuit_.variables[key].columns;
        head_dim = std::max(head_dim, scores);
        value_dim = std::max(value_dim, circuit_.variables[head.out].columns);
      }
      shape.head_dim.push_back(head_dim);
      shape.value_dim.push_back(value_dim);
      shape.intermediate = std::max(shape.intermediate, std::ssize(units_of(layer)));
    }
    return shape;
  }

  std::vector<NamedTensor> tensors() {
    add_embeddings();
    const CircuitShape shape = this->shape();
    for (size_t layer = 0; layer < circuit_.layers.size(); ++layer) {
      const std::string prefix = fmt::format("model.layers.{}.", layer);
      add_attention(circuit_.layers[layer], prefix + "attention.", shape.head_dim[layer],
                    shape.value_dim[layer]);
      add_feed_forward(units_of(circuit_.layers[layer]), prefix + "feed_forward.",
                       shape.intermediate);
    }
    add_classifier();
    return std::move(tensors_);
  }

 private:
  std::vector<Unit> units_of(const CircuitLayer& layer) const {
    UnitBuilder builder(graph_, values_, circuit_);
    std::vector<Unit> all;
    for (const FeedPart& part : layer.feed_forward) {
      for (Unit& unit : builder.units(part)) all.push_back(std::move(unit));
    }
    return all;
  }

  /// Writes a value of a variable into a row of an embedding.
  void embed(NamedTensor& table, int64_t row, const Variable& variable, const ProgramValue& value) {
    if (variable.form == Form::one_hot) {
      at(table, row, variable.column + values_.index(variable.node, value)) = 1;
    } else {
      at(table, row, variable.column) = static_cast<float>(number_of(value));
    }
  }

  void add_embeddings() {
    const int64_t C = circuit_.width, V = std::ssize(graph_.alphabet), N = graph_.length;
    NamedTensor words = zeros("model.embeddings.word.weight", {1 + V + 1, C});
    NamedTensor positions = zeros("model.embeddings.position.weight", {1 + N, C});
    at(words, 0, Circuit::kBos) = 1;
    for (int64_t token = 0; token < V; ++token) at(words, 1 + token, Circuit::kToken) = 1;
    for (const int index : circuit_.embedded) {
      const Variable& variable = circuit_.variables[index];
      if (variable.column == Circuit::kToken) continue;  // a constant
      const bool of_position = depends_on_position(variable.node);
      for (int64_t i = 0; i < (of_position ? N : V); ++i) {
        embed(of_position ? positions : words, 1 + i, variable, value_at(variable.node, i));
      }
    }
    for (const CircuitLayer& layer : circuit_.layers) {
      for (const HeadPart& head : layer.heads) {
        if (graph_[head.node].kind != NodeKind::aggregate) continue;
        for (int64_t token = 0; token < V; ++token) {
          embed(words, 1 + token, circuit_.variables[head.out], graph_[head.node].value);
        }
      }
    }
    tensors_.push_back(std::move(words));
    tensors_.push_back(std::move(positions));
  }

  int source_of(int node) const {
    const std::span<const int> inputs = values_.inputs(node);
    return graph_[node].kind == NodeKind::map && !inputs.empty() ? inputs[0] : node;
  }
  bool depends_on_position(int node) const {
    return graph_[source_of(node)].kind == NodeKind::indices;
  }
  ProgramValue value_at(int node, int64_t i) const {
    const int source = source_of(node);
    if (graph_[source].kind == NodeKind::indices) {
      return graph_.evaluate(node, {{source, Fraction(i)}});
    }
    return graph_.evaluate(
        node, {{source, graph_[source].kind == NodeKind::tokens ? ProgramValue(graph_.alphabet[i])
                                                                : graph_.evaluate(source, {})}});
  }

  void add_attention(const CircuitLayer& layer, const std::string& prefix, int64_t D, int64_t Dv) {
    const int64_t C = circuit_.width, H = std::ssize(layer.heads);
    NamedTensor query = zeros(prefix + "query.weight", {H * D, C});
    NamedTensor key = zeros(prefix + "key.weight", {H * D, C});
    NamedTensor value = zeros(prefix + "value.weight", {H * Dv, C});
    NamedTensor output = zeros(prefix + "output.weight", {C, H * Dv});
    for (int64_t h = 0; h < H; ++h) {
      add_scores(layer.heads[h], h * D, query, key);
      add_values(layer.heads[h], h * Dv, value, output);
    }
    for (NamedTensor* matrix : {&query, &key, &value}) {
      const std::string name = matrix->name.substr(0, matrix->name.rfind('.'));
      NamedTensor bias = zeros(name + ".bias", {matrix->shape[0]});
      tensors_.push_back(std::move(*matrix));
      tensors_.push_back(std::move(bias));
    }
    tensors_.push_back(std::move(output));
    tensors_.push_back(zeros(prefix + "output.bias", {C}));
  }

  /// A key scores kScore for every condition that it fulfils. [BOS] scores half of one less than a
  /// key that fulfils all, so that it gets what no other key does; for a width it scores the same,
  /// and its own row sees it alone.
  void add_scores(const HeadPart& head, int64_t row, NamedTensor& query, NamedTensor& key) const {
    const ProgramNode& node = graph_[head.node];
    for (size_t m = 0; m < head.keys.size(); ++m) {
      const Variable& keys = circuit_.variables[head.keys[m]];
      const Variable& queries = circuit_.variables[head.queries[m]];
      const std::span<const ProgramValue> key_values = values_.of(keys.node);
      const std::span<const ProgramValue> query_values = values_.of(queries.node);
      for (int64_t k = 0; k < keys.columns; ++k, ++row) {
        at(key, row, keys.column + k) = 1;
        for (int64_t q = 0; q < queries.columns; ++q) {
          if (!node.selector[m].holds(key_values[k], query_values[q])) continue;
          at(query, row, queries.column + q) = kScore;
        }
      }
    }
    const auto conditions = static_cast<float>(head.keys.size());
    at(key, row, Circuit::kBos) = 1;
    at(query, row, Circuit::kToken) =
        kScore * (node.kind == NodeKind::width ? conditions : conditions - 0.5f);
    at(query, row, Circuit::kBos) = kScore * (conditions + 1);
  }

  /// Of an aggregate, the embeddings hold what it gives where nothing is selected; the head adds
  /// the difference.
  void add_values(const HeadPart& head, int64_t row, NamedTensor& value,
                  NamedTensor& output) const {
    const ProgramNode& node = graph_[head.node];
    const Variable& out = circuit_.variables[head.out];
    for (int64_t i = 0; i < out.columns; ++i) at(output, out.column + i, row + i) = 1;
    if (node.kind == NodeKind::width) {
      at(value, row, Circuit::kBos) = 1;
      return;
    }
    const Variable& from = circuit_.variables[head.value];
    if (node.kind == NodeKind::mean) {
      at(value, row, from.column) = 1;
      return;
    }
    const std::span<const ProgramValue> from_values = values_.of(from.node);
    for (int64_t i = 0; i < from.columns; ++i) {
      at(value, row + values_.index(out.node, from_values[i]), from.column + i) += 1;
    }
    at(value, row + values_.index(out.node, node.value), Circuit::kToken) -= 1;
  }

  void add_feed_forward(const std::vector<Unit>& units, const std::string& prefix, int64_t F) {
    const int64_t C = circuit_.width;
    NamedTensor up = zeros(prefix + "up.weight", {F, C});
    NamedTensor bias = zeros(prefix + "up.bias", {F});
    NamedTensor down = zeros(prefix + "down.weight", {C, F});
    for (int64_t u = 0; u < std::ssize(units); ++u) {
      for (const Weighted& in : units[u].in) at(up, u, in.column) += in.weight;
      for (const Weighted& out : units[u].out) at(down, out.column, u) += out.weight;
      bias.values[u] = units[u].bias;
    }
    tensors_.push_back(std::move(up));
    tensors_.push_back(std::move(bias));
    tensors_.push_back(std::move(down));
    tensors_.push_back(zeros(prefix + "down.bias", {C}));
  }

  void add_classifier() {
    const Variable& output = circuit_.variables[circuit_.output];
    NamedTensor weights = zeros("classifier.weight", {1 + output.columns, circuit_.width});
    at(weights, 0, Circuit::kBos) = kLogit;
    for (int64_t i = 0; i < output.columns; ++i) at(weights, 1 + i, output.column + i) = kLogit;
    tensors_.push_back(std::move(weights));
    tensors_.push_back(zeros("classifier.bias", {1 + output.columns}));
  }

  const ProgramGraph& graph_;
  const PossibleValues& values_;
  const Circuit& circuit_;
  std::vector<NamedTensor> tensors_;
};

}  // namespace

CircuitShape shape_of(const ProgramGraph& graph, const PossibleValues& values,
                      const Circuit& circuit) {
  return WeightBuilder(graph, values, circuit).shape();
}

std::vector<NamedTensor> weights_of(const ProgramGraph& graph, const PossibleValues& values,
                                    const Circuit& circuit) {
  return WeightBuilder(graph, values, circuit).tensors();
}

}  // namespace headwise
