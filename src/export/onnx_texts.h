// What a graph knows of its padded texts: which tokens are there, where they stand, and which of
// them a row sees.
//
// A token is padding if its mask is 0. Texts may be padded on either side: positions count the
// tokens that are there. Letters: B texts, N tokens of the longest.
#pragma once

#include <map>
#include <string>

#include "export/onnx_graph.h"
#include "headwise/kernels/attention.h"

namespace headwise::onnx {

class Texts {
 public:
  /// mask [B, N], int64.
  Texts(Graph& graph, Value mask);

  const Value& mask() const { return mask_; }
  const Value& positions() const { return positions_; }  // [B, N], int64; of padding anything

  /// Which keys rows see, [B, 1, N or 1, N]: as numbers to be added to scores, and as weights that
  /// are the same for all that a row sees.
  Value scores(const AttentionMask& mask) { return cached("scores", mask, &Texts::make_scores); }
  Value weights(const AttentionMask& mask) { return cached("weights", mask, &Texts::make_weights); }

  /// Where key j stands from row i: j - i, [N, N].
  Value distances();

  /// The rows [B, C] of the first or last token, of rows [B, N, C].
  enum class End { first, last };
  Value at(End end, const Value& rows);

  Graph& graph() const { return graph_; }

 private:
  using Make = Value (Texts::*)(const AttentionMask&);
  Value cached(const char* kind, const AttentionMask& mask, Make make);
  Value visible(const AttentionMask& mask) { return cached("visible", mask, &Texts::make_visible); }
  Value make_visible(const AttentionMask& mask);
  Value make_scores(const AttentionMask& mask);
  Value make_weights(const AttentionMask& mask);

  Graph& graph_;
  Value mask_, positions_, distances_;
  std::map<std::string, Value> masks_;
};

}  // namespace headwise::onnx
