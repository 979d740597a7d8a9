// Values, operations on them, and how nodes are written.
#include "construct/program_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"

namespace headwise {
namespace {

struct NamedOp {
  MapOp op;
  std::string_view name;
};

constexpr NamedOp kOpNames[] = {
    {MapOp::add, "+"},       {MapOp::subtract, "-"},       {MapOp::multiply, "*"},
    {MapOp::divide, "/"},    {MapOp::equal, "=="},         {MapOp::not_equal, "!="},
    {MapOp::less, "<"},      {MapOp::less_equal, "<="},    {MapOp::greater, ">"},
    {MapOp::minimum, "min"}, {MapOp::greater_equal, ">="}, {MapOp::both, "and"},
    {MapOp::either, "or"},   {MapOp::negate, "-"},         {MapOp::invert, "not"},
    {MapOp::maximum, "max"}, {MapOp::choose, "if"},
};

[[noreturn]] void refuse_operand(MapOp op, const ProgramValue& value, const char* expected) {
  throw Error({.what = fmt::format("program: \"{}\" does not take this", to_string(op)),
               .got = to_source(value),
               .expected = expected});
}

const Fraction& operand_of(MapOp op, const ProgramValue& value) {
  if (const auto* const number = std::get_if<Fraction>(&value)) return *number;
  refuse_operand(op, value, "a number");
}

}  // namespace

double number_of(const ProgramValue& value) { return std::get<Fraction>(value).number(); }

std::string to_string(const ProgramValue& value) {
  if (const auto* const word = std::get_if<std::string>(&value)) return *word;
  return fmt::format("{:.6g}", number_of(value));
}

std::string to_source(const ProgramValue& value) {
  const bool word = std::holds_alternative<std::string>(value);
  return word ? fmt::format("\"{}\"", to_string(value)) : to_string(value);
}

std::string_view to_string(MapOp op) { return std::ranges::find(kOpNames, op, &NamedOp::op)->name; }

ProgramValue apply_map(MapOp op, std::span<const ProgramValue> operands) {
  const auto number = [&](size_t i) { return operand_of(op, operands[i]); };
  const auto holds = [&](size_t i) { return number(i) != Fraction(0); };
  const auto truth = [](bool holds) { return ProgramValue(Fraction(holds ? 1 : 0)); };
  switch (op) {
    case MapOp::add:
      return number(0) + number(1);
    case MapOp::subtract:
      return number(0) - number(1);
    case MapOp::multiply:
      return number(0) * number(1);
    case MapOp::divide:
      return number(0) / number(1);
    case MapOp::equal:
      return truth(operands[0] == operands[1]);
    case MapOp::not_equal:
      return truth(operands[0] != operands[1]);
    case MapOp::less:
      return truth(operands[0] < operands[1]);
    case MapOp::less_equal:
      return truth(operands[0] <= operands[1]);
    case MapOp::greater:
      return truth(operands[0] > operands[1]);
    case MapOp::greater_equal:
      return truth(operands[0] >= operands[1]);
    case MapOp::both:
      return truth(holds(0) && holds(1));
    case MapOp::either:
      return truth(holds(0) || holds(1));
    case MapOp::negate:
      return Fraction(0) - number(0);
    case MapOp::invert:
      return truth(!holds(0));
    case MapOp::minimum:
      return std::min(number(0), number(1));
    case MapOp::maximum:
      return std::max(number(0), number(1));
    case MapOp::choose:
      return holds(2) ? operands[0] : operands[1];
  }
  return Fraction(0);
}

bool Match::holds(const ProgramValue& key_value, const ProgramValue& query_value) const {
  const ProgramValue operands[] = {key_value, query_value};
  return (std::get<Fraction>(apply_map(op, operands)) != Fraction(0)) != negated;
}

int ProgramGraph::add(ProgramNode node) {
  const auto [at, is_new] = index_.try_emplace(node, static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back(std::move(node));
  return at->second;
}

std::string ProgramGraph::definition(int node) const {
  const std::string text = text_of(node, true);
  const auto name = names_.find(node);
  return name == names_.end() ? text : fmt::format("{} = {}", name->second, text);
}

std::string ProgramGraph::text_of(int at, bool defines) const {
  const ProgramNode& node = nodes_[at];
  if (const auto name = names_.find(at); name != names_.end() && !defines) return name->second;
  const auto part = [&](int operand) {
    const std::string text = text_of(node.operands[operand], false);
    const ProgramNode& of = nodes_[node.operands[operand]];
    const bool plain = of.kind != NodeKind::map || names_.contains(node.operands[operand]) ||
                       of.op == MapOp::minimum || of.op == MapOp::maximum;
    return plain ? text : fmt::format("({})", text);
  };
  switch (node.kind) {
    case NodeKind::literal:
      return to_source(node.value);
    case NodeKind::tokens:
      return "tokens";
    case NodeKind::indices:
      return "indices";
    case NodeKind::width:
      return fmt::format("selector_width({})", text_of(node.selector));
    case NodeKind::mean:
      return fmt::format("mean({}, {})", text_of(node.selector), text_of(node.operands[0], false));
    case NodeKind::aggregate:
      return fmt::format("aggregate({}, {})", text_of(node.selector),
                         text_of(node.operands[0], false));
    case NodeKind::map:
      break;
  }
  switch (node.op) {
    case MapOp::negate:
      return fmt::format("-{}", part(0));
    case MapOp::invert:
      return fmt::format("not {}", part(0));
    case MapOp::minimum:
    case MapOp::maximum:
      return fmt::format("{}({}, {})", to_string(node.op), text_of(node.operands[0], false),
                         text_of(node.operands[1], false));
    case MapOp::choose:
      return fmt::format("{} if {} else {}", part(0), part(2), part(1));
    default:
      return fmt::format("{} {} {}", part(0), to_string(node.op), part(1));
  }
}

std::string ProgramGraph::text_of(const Selector& selector) const {
  if (selector.empty()) return "select(true)";
  std::vector<std::string> parts;
  for (const Match& match : selector) {
    parts.push_back(fmt::format("{}select({}, {}, {})", match.negated ? "not " : "",
                                to_text(match.key), to_text(match.query), to_string(match.op)));
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

ProgramValue ProgramGraph::evaluate(int at, const std::map<int, ProgramValue>& known) const {
  std::map<int, ProgramValue> values = known;  // parts may be used many times
  return evaluated(at, values);
}

const ProgramValue& ProgramGraph::evaluated(int at, std::map<int, ProgramValue>& values) const {
  if (const auto value = values.find(at); value != values.end()) return value->second;
  const ProgramNode& node = nodes_[at];
  if (node.kind == NodeKind::literal) return node.value;
  std::vector<ProgramValue> operands;
  for (const int operand : node.operands) operands.push_back(evaluated(operand, values));
  return values.emplace(at, apply_map(node.op, operands)).first->second;
}

}  // namespace headwise
