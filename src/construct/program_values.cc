// Values from the alphabet and the longest text up to the output.
#include "construct/program_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "headwise/core/error.h"

namespace headwise {
namespace {

constexpr int64_t kMostValues = 1 << 11;        // of a sequence
constexpr int64_t kMostCombinations = 1 << 13;  // of the inputs of a map

[[noreturn]] void refuse_size(const ProgramGraph& graph, int node, const char* what, int64_t most) {
  throw Error({.what = fmt::format("program: {}", what),
               .where = graph.definition(node),
               .expected = fmt::format("at most {}", most),
               .hint = "take a shorter length or a smaller alphabet"});
}

}  // namespace

const Fraction& number_to_average(const ProgramGraph& graph, int node, const ProgramValue& value) {
  if (const auto* const number = std::get_if<Fraction>(&value)) return *number;
  throw Error({.what = "program: mean averages numbers",
               .where = graph.definition(node),
               .got = to_source(value),
               .expected = "a number",
               .hint = "aggregate takes words"});
}

PossibleValues::PossibleValues(const ProgramGraph& graph) : graph_(graph) {
  for (int node = 0; node < std::ssize(graph.nodes()); ++node) {
    inputs_.push_back(inputs_of(node));
    values_.push_back(values_of(node));
    if (std::ssize(values_.back()) <= kMostValues) continue;
    refuse_size(graph, node, "a sequence can have too many values", kMostValues);
  }
}

int64_t PossibleValues::index(int node, const ProgramValue& value) const {
  return std::ranges::lower_bound(values_[node], value) - values_[node].begin();
}

int64_t PossibleValues::combinations(std::span<const int> nodes) const {
  int64_t count = 1;
  for (const int node : nodes) {
    count *= std::ssize(values_[node]);
    if (count > kMostCombinations) return count;
  }
  return count;
}

std::vector<int> PossibleValues::inputs_of(int node) const {
  const ProgramNode& of = graph_[node];
  if (of.kind != NodeKind::map) return {};
  std::set<int> behind, direct;
  for (const int operand : of.operands) {
    if (graph_[operand].kind == NodeKind::literal) continue;
    direct.insert(operand);
    if (graph_[operand].kind == NodeKind::map) {
      behind.insert(inputs_[operand].begin(), inputs_[operand].end());
    } else {
      behind.insert(operand);
    }
  }
  for (const std::set<int>& nodes : {behind, direct}) {
    std::vector<int> all(nodes.begin(), nodes.end());
    if (combinations(all) <= kMostCombinations) return all;
  }
  refuse_size(graph_, node, "a map has too many combinations of values", kMostCombinations);
}

std::vector<ProgramValue> PossibleValues::values_of(int node) {
  const ProgramNode& of = graph_[node];
  std::set<ProgramValue> values;
  switch (of.kind) {
    case NodeKind::literal:
      values.insert(of.value);
      break;
    case NodeKind::tokens:
      values.insert(graph_.alphabet.begin(), graph_.alphabet.end());
      break;
    case NodeKind::indices:
    case NodeKind::width: {
      const int64_t count = graph_.length + (of.kind == NodeKind::width ? 1 : 0);
      for (int64_t i = 0; i < count; ++i) values.insert(Fraction(i));
      break;
    }
    case NodeKind::map:
      for_each(inputs_[node], [&](const std::map<int, ProgramValue>& known) {
        values.insert(graph_.evaluate(node, known));
      });
      break;
    case NodeKind::mean:
      return means_of(node);
    case NodeKind::aggregate:
      values.insert(values_[of.operands[0]].begin(), values_[of.operands[0]].end());
      values.insert(of.value);
      break;
  }
  return {values.begin(), values.end()};
}

/// All sums of 1, 2, … values, divided.
std::vector<ProgramValue> PossibleValues::means_of(int node) const {
  std::set<Fraction> sums = {0}, means = {0};
  for (int64_t count = 1; count <= graph_.length; ++count) {
    std::set<Fraction> next;
    for (const Fraction& sum : sums) {
      for (const ProgramValue& value : values_[graph_[node].operands[0]]) {
        next.insert(sum + number_to_average(graph_, node, value));
      }
    }
    sums = std::move(next);
    for (const Fraction& sum : sums) means.insert(sum / Fraction(count));
    if (std::ssize(means) <= kMostValues) continue;
    refuse_size(graph_, node, "a mean can have too many values", kMostValues);
  }
  return {means.begin(), means.end()};
}

}  // namespace headwise
