// A stack of blocks with its embeddings as nodes of a graph, built as the model itself is.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "export/onnx_layers.h"
#include "export/onnx_texts.h"
#include "headwise/model/config.h"
#include "model/stack_layout.h"

namespace headwise::onnx {

/// What cross attention reads.
struct Source {
  Value rows{};  // [B, M, C]
  Texts* texts = nullptr;
};

class StackGraph {
 public:
  /// `prefix` is the base model's.
  StackGraph(Layers layers, Side side, const std::string& prefix, Texts& texts, Source source);

  /// The last hidden states [B, N, C] of ids [B, N]; of token types if the model has several.
  Value build(const Value& ids, const Value& types);

 private:
  struct Projected {
    Value q, k, v;  // [B, N, heads, width], or nothing
  };

  Value embed(const Value& ids, const Value& types);
  Value position_rows(const Value& ids);
  Value block(int64_t layer, const Value& x);
  Value feed_forward(int64_t layer, const Value& x);

  template <class F>
  Value residual(int64_t layer, std::string_view norm, const Value& x, const F& f);

  // onnx_attention.cc
  Value attend(int64_t layer, bool cross, const Value& x);
  Projected project(int64_t layer, const AttentionNames& names, const MultiHeadAttentionShape& s,
                    const Value& x, const Value& source);
  Value learned_heads(const AttentionConfig& attention, const MultiHeadAttentionShape& s,
                      Texts& keys, const Projected& projected, bool cross);
  Value fixed_heads(const MultiHeadAttentionShape& s, size_t first, size_t count, Texts& keys,
                    const Value& v, bool cross);
  Value heads_of(const Value& rows, int64_t heads, int64_t width);
  Value of_heads(const Value& kv, int64_t kv_heads, std::span<const int32_t> kv_head);
  Value gates(int64_t layer, bool cross, const RoutingConfig& routing, int64_t heads,
              const Value& x);
  Value relative_bias(const AttentionConfig& attention);
  Value rotate(const Value& x, int64_t width);
  void make_rotary();
  Value dynamic_ntk_frequencies();

  Layers layers_;
  Graph& graph_;
  const ModelConfig& config_;
  Side side_;
  const StackConfig& stack_;
  StackNaming naming_;
  Texts& texts_;
  Source source_;
  Value cosines_, sines_;  // [B, N, 1, half of the turned columns]
  Value biases_;           // [H, N, N] of relative distances, of all heads of the architecture
};

}  // namespace headwise::onnx
