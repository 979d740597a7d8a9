// Which values every sequence of a program can have: what its maps are compiled for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "construct/program_graph.h"

namespace headwise {

/// A value that `node`, a mean, averages. Throws Error for a word.
const Fraction& number_to_average(const ProgramGraph& graph, int node, const ProgramValue& value);

class PossibleValues {
 public:
  /// Throws Error if a sequence has too many.
  explicit PossibleValues(const ProgramGraph& graph);

  /// In ascending order.
  std::span<const ProgramValue> of(int node) const { return values_[node]; }
  int64_t index(int node, const ProgramValue& value) const;

  /// The sequences that a map is computed from at once. They are behind all maps inside it, unless
  /// these have too many combinations of values.
  std::span<const int> inputs(int node) const { return inputs_[node]; }

  /// Calls `use` with every combination of values of some nodes.
  template <class Use>
  void for_each(std::span<const int> nodes, const Use& use) const {
    std::vector<size_t> at(nodes.size());
    while (true) {
      std::map<int, ProgramValue> known;
      for (size_t i = 0; i < nodes.size(); ++i) known[nodes[i]] = values_[nodes[i]][at[i]];
      use(known);
      size_t i = 0;
      while (i < nodes.size() && ++at[i] == values_[nodes[i]].size()) at[i++] = 0;
      if (i == nodes.size()) return;
    }
  }

 private:
  std::vector<ProgramValue> values_of(int node);
  std::vector<ProgramValue> means_of(int node) const;
  std::vector<int> inputs_of(int node) const;
  int64_t combinations(std::span<const int> nodes) const;

  const ProgramGraph& graph_;
  std::vector<std::vector<ProgramValue>> values_;
  std::vector<std::vector<int>> inputs_;
};

}  // namespace headwise
