// A program as heads and feed-forward parts, in layers, with the columns of the residual stream
// that they read and write.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "construct/program_graph.h"
#include "construct/program_values.h"

namespace headwise {

/// How the residual stream holds a sequence. On the row of [BOS], all columns of a one-hot vector
/// or number are 0.
enum class Form {
  one_hot,  // a column per value
  number,   // one column
  share,    // one column, 1 / (1 + width): what a head gives that also attends to [BOS]
};

struct Variable {
  int node = 0;
  Form form = Form::one_hot;
  int64_t column = 0, columns = 0;
};

/// A head: a node that selects.
struct HeadPart {
  int node = 0;
  std::vector<int> keys{}, queries{};  // variables, one for each match of the selector
  int value = -1;                      // a variable; a width has none
  int out = 0;                         // a variable
};

/// A part of a feed-forward layer: one form of a node, from variables of `inputs`.
struct FeedPart {
  int node = 0;
  std::vector<int> inputs{};  // variables, of which at most the last is no one-hot vector
  int out = 0;
};

struct CircuitLayer {
  std::vector<HeadPart> heads{};
  std::vector<FeedPart> feed_forward{};
};

struct Circuit {
  static constexpr int64_t kBos = 0, kToken = 1;  // columns: 1 on the row of [BOS], 1 on all others

  std::vector<Variable> variables{};
  std::vector<int> embedded{};  // variables that the embeddings hold
  std::vector<CircuitLayer> layers{};
  int64_t width = 2;
  int output = 0;  // a variable
};

/// At most `max_heads` heads in a layer; 0: any number.
Circuit make_circuit(const ProgramGraph& graph, const PossibleValues& values, int64_t max_heads);

}  // namespace headwise
