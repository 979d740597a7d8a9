// Evaluates a program plainly, position by position.
#include "headwise/construct/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "construct/parse_program.h"
#include "construct/program_values.h"
#include "headwise/core/error.h"
#include "headwise/core/nearest_name.h"
#include "headwise/io/json.h"
#include "io/file.h"

namespace headwise {
namespace {

using Values = std::vector<ProgramValue>;  // one per position

class Evaluation {
 public:
  Evaluation(const ProgramGraph& graph, std::span<const std::string> tokens)
      : graph_(graph), tokens_(tokens) {
    for (size_t node = 0; node < graph.nodes().size(); ++node) {
      values_.emplace_back();
      Values values(tokens.size());
      for (size_t at = 0; at < tokens.size(); ++at) {
        values[at] = value(static_cast<int>(node), at);
      }
      values_.back() = std::move(values);
    }
  }

  const Values& of(int node) const { return values_[node]; }

 private:
  ProgramValue value(int at, size_t position) const {
    const ProgramNode& node = graph_[at];
    switch (node.kind) {
      case NodeKind::literal:
        return node.value;
      case NodeKind::tokens:
        return tokens_[position];
      case NodeKind::indices:
        return Fraction(static_cast<int64_t>(position));
      case NodeKind::map: {
        Values operands;
        for (const int operand : node.operands) operands.push_back(values_[operand][position]);
        return apply_map(node.op, operands);
      }
      case NodeKind::width:
        return Fraction(std::ssize(selected(node, position)));
      case NodeKind::mean:
        return mean(at, position);
      case NodeKind::aggregate:
        return aggregate(at, position);
    }
    return Fraction(0);
  }

  /// The key positions that a query selects.
  std::vector<size_t> selected(const ProgramNode& node, size_t query) const {
    std::vector<size_t> keys;
    for (size_t key = 0; key < tokens_.size(); ++key) {
      if (std::ranges::all_of(node.selector, [&](const Match& match) {
            return match.holds(values_[match.key][key], values_[match.query][query]);
          })) {
        keys.push_back(key);
      }
    }
    return keys;
  }

  ProgramValue mean(int at, size_t position) const {
    const ProgramNode& node = graph_[at];
    const std::vector<size_t> keys = selected(node, position);
    Fraction sum;
    for (const size_t key : keys) {
      sum = sum + number_to_average(graph_, at, values_[node.operands[0]][key]);
    }
    return sum / Fraction(std::max<int64_t>(1, std::ssize(keys)));
  }

  ProgramValue aggregate(int at, size_t position) const {
    const ProgramNode& node = graph_[at];
    const Values& from = values_[node.operands[0]];
    const std::vector<size_t> keys = selected(node, position);
    if (keys.empty()) return node.value;
    for (const size_t key : keys) {
      if (from[key] == from[keys.front()]) continue;
      throw Error(
          {.what = "program: aggregate gives one value, and the selected positions differ",
           .where = fmt::format("position {}: {}", position, graph_.definition(at)),
           .got = fmt::format("{} and {}", to_source(from[keys.front()]), to_source(from[key])),
           .expected = "one selected position, or equal values",
           .hint = "mean averages numbers"});
    }
    return from[keys.front()];
  }

  const ProgramGraph& graph_;
  std::span<const std::string> tokens_;
  std::vector<Values> values_;
};

}  // namespace

Program Program::parse(std::string_view source, const std::string& where,
                       const ProgramOptions& options) {
  Program program;
  program.name_ = where;
  program.source_ = source;
  program.graph_ = std::make_shared<const ProgramGraph>(parse_program(source, where, options));
  return program;
}

Program Program::load(const std::string& name_or_file, const ProgramOptions& options) {
  std::vector<std::string_view> names;
  for (const KnownProgram& known : known_programs()) {
    if (known.name == name_or_file) return parse(known.source, name_or_file, options);
    names.push_back(known.name);
  }
  if (!is_there(name_or_file)) {
    throw Error({.what = "there is no such program",
                 .got = quote(name_or_file),
                 .expected = fmt::format("{}, or a file", fmt::join(names, ", ")),
                 .hint = did_you_mean(name_or_file, names)});
  }
  constexpr size_t kLargestFile = 1 << 20;
  Program program = parse(read_file(name_or_file, kLargestFile), name_or_file, options);
  program.name_ = std::filesystem::path(name_or_file).stem().string();
  return program;
}

const std::vector<std::string>& Program::alphabet() const { return graph_->alphabet; }
int64_t Program::length() const { return graph_->length; }

std::vector<std::string> Program::run(std::span<const std::string> tokens) const {
  if (std::ssize(tokens) > length()) {
    throw Error({.what = "a text is longer than the program's longest",
                 .got = fmt::format("{} tokens", tokens.size()),
                 .expected = fmt::format("at most {}", length())});
  }
  for (const std::string& token : tokens) {
    if (std::ranges::find(alphabet(), token) != alphabet().end()) continue;
    throw Error({.what = "a token is not in the alphabet",
                 .got = quote(token),
                 .expected = fmt::format("{}", fmt::join(alphabet(), " "))});
  }
  const Evaluation evaluation(*graph_, tokens);
  std::vector<std::string> output;
  for (const ProgramValue& value : evaluation.of(graph_->output)) {
    output.push_back(to_string(value));
  }
  return output;
}

}  // namespace headwise
