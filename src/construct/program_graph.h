// A program as a graph: every node is a sequence with one value per position.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "construct/fraction.h"

namespace headwise {

/// Numbers are before words in every order. Truth is 1 and 0.
using ProgramValue = std::variant<Fraction, std::string>;

/// The number; throws nothing, and must not be called for a word.
double number_of(const ProgramValue& value);

/// A number with at most 6 digits, or the word.
std::string to_string(const ProgramValue& value);
/// The same as a program has it: words are quoted.
std::string to_source(const ProgramValue& value);

enum class MapOp {
  add,
  subtract,
  multiply,
  divide,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  both,
  either,
  negate,
  invert,
  minimum,
  maximum,
  choose,  // the first if the third holds, else the second
};
/// "+", "==", "min"
std::string_view to_string(MapOp op);

/// Throws Error for operands that the operation does not take.
ProgramValue apply_map(MapOp op, std::span<const ProgramValue> operands);

/// Selects, for every query position, the key positions where `op(key, query)` holds, or does not.
struct Match {
  int key = 0, query = 0;  // nodes
  MapOp op = MapOp::equal;
  bool negated = false;

  bool holds(const ProgramValue& key_value, const ProgramValue& query_value) const;
  auto operator<=>(const Match&) const = default;
};

/// All of them hold; none: every position is selected.
using Selector = std::vector<Match>;

enum class NodeKind {
  literal,
  tokens,
  indices,    // 0, 1, …
  map,        // of the values at the same position
  width,      // how many positions are selected
  mean,       // of numbers at the selected positions; 0 if there are none
  aggregate,  // the value that all selected positions have; `value` if there are none
};

struct ProgramNode {
  NodeKind kind = NodeKind::literal;
  MapOp op = MapOp::add;
  std::vector<int> operands{};  // of map, mean and aggregate; nodes before this one
  ProgramValue value{};         // of literal and aggregate
  Selector selector{};

  bool selects() const { return kind >= NodeKind::width; }
  auto operator<=>(const ProgramNode&) const = default;
};

class ProgramGraph {
 public:
  std::vector<std::string> alphabet{};
  int64_t length = 0;
  int output = -1;

  /// The node, which may be there already.
  int add(ProgramNode node);
  void set_name(int node, const std::string& name) { names_.emplace(node, name); }

  std::span<const ProgramNode> nodes() const { return nodes_; }
  const ProgramNode& operator[](int node) const { return nodes_[node]; }

  /// "count - indices - 1": as a program has it, with the names that it gave.
  std::string to_text(int node) const { return text_of(node, false); }
  /// The same with what is behind its own name: "count = selector_width(select(true))".
  std::string definition(int node) const;

  /// What a map gives for values of the nodes in `known`.
  ProgramValue evaluate(int node, const std::map<int, ProgramValue>& known) const;

 private:
  const ProgramValue& evaluated(int node, std::map<int, ProgramValue>& values) const;
  std::string text_of(int node, bool defines) const;
  std::string text_of(const Selector& selector) const;

  std::vector<ProgramNode> nodes_;
  std::map<ProgramNode, int> index_;
  std::map<int, std::string> names_;
};

}  // namespace headwise
