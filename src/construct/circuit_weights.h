// The weights of a circuit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "construct/circuit.h"

namespace headwise {

/// Rows one after the other.
struct NamedTensor {
  std::string name{};
  std::vector<int64_t> shape{};
  std::vector<float> values{};
};

struct CircuitShape {
  int64_t intermediate = 1;
  std::vector<int64_t> head_dim{}, value_dim{};  // [L], at least 1
};

CircuitShape shape_of(const ProgramGraph& graph, const PossibleValues& values,
                      const Circuit& circuit);

/// The tensors of a "normless" model; layers without heads have one that is pruned, and no weights
/// of it. Row 0 of the embedding is [BOS], the next are those of the alphabet, and the last, of
/// [UNK], is 0. Label 0 is [BOS].
std::vector<NamedTensor> weights_of(const ProgramGraph& graph, const PossibleValues& values,
                                    const Circuit& circuit);

}  // namespace headwise
