// Multi-head attention as a layer: projections, the attention operator, the output projection.
//
// Forward and backward go in three steps each, so that the caller can work on queries and keys in
// place between them (rotary positions, norms, a cache):
//   project:  q = x Wq' + bq,  k = source Wk' + bk,  v = source Wv' + bv
//   attend:   z = attention(q, k, v)                                   (kernels/attention.h)
//   output:   out = z Wo' + bo
//
// Letters: T rows of x, S rows of the source (x itself in self attention), C width, Cs width of
// the source, H query heads, K key/value heads, D head width, Dv value width. The rows of all
// sequences lie one after the other; the offsets given to attend separate them.
//
// The last F heads may have fixed patterns. They have values and a part of the output projection,
// but no queries, and key/value heads that only they read have no keys.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/kernels/attention.h"
#include "headwise/kernels/gemm.h"
#include "headwise/kernels/kv_cache.h"
#include "headwise/model/fixed_pattern.h"

namespace headwise {

struct MultiHeadAttentionConfig {
  int64_t width = 0;                      // C
  int64_t heads = 0;                      // H; a layer without heads gives its output bias
  std::optional<int64_t> kv_heads{};      // K; H unless given
  std::optional<int64_t> head_dim{};      // D; C / H unless given, which must then be whole
  std::optional<int64_t> value_dim{};     // Dv; D unless given
  std::optional<int64_t> source_width{};  // Cs; given: cross attention
  bool projection_bias = true;
  bool key_bias = true, value_bias = true;  // with projection_bias; without, these stay 0
  bool output_bias = true;
  std::vector<int32_t> kv_head{};      // [H], each query head's key/value head; empty: h * K / H.
                                       // Pruning leaves uneven groups, which need it.
  std::vector<FixedPattern> fixed{};   // [F], of the last F heads
  std::optional<int64_t> key_heads{};  // the first of the K, those with keys; unless given, as many
                                       // as the learned heads read
};

/// A config with its defaults filled in.
struct MultiHeadAttentionShape {
  int64_t C = 0, Cs = 0, H = 0, K = 0, D = 0, Dv = 0;
  bool cross = false, projection_bias = true, output_bias = true;
  bool key_bias = true, value_bias = true;
  std::vector<int32_t> kv_head{};
  std::vector<FixedPattern> fixed{};
  int64_t key_heads = 0;  // the first of the K: those that have keys

  int64_t learned() const { return H - static_cast<int64_t>(fixed.size()); }
  int64_t queries() const { return learned() * D; }  // rows of the projections
  int64_t keys() const { return key_heads * D; }
  int64_t values() const { return K * Dv; }

  /// The key/value head of a query head.
  int64_t kv_of(int64_t head) const { return kv_head.empty() ? head * K / H : kv_head[head]; }

  bool operator==(const MultiHeadAttentionShape&) const = default;
};

/// Throws Error for an invalid config.
MultiHeadAttentionShape resolve(const MultiHeadAttentionConfig& config);

struct AttentionCount {
  int64_t parameters = 0;
  int64_t multiply_adds = 0;
};

/// What a layer holds, and what one sequence of `rows` rows over `keys` keys costs:
///   parameters     C H D + Cs K (D + Dv) + H Dv C,  biases  H D + K (D + Dv)  and  C
///   multiply-adds  rows C H D + new Cs K (D + Dv) + rows keys H (D + Dv) + rows H Dv C
/// `new` rows get keys and values: all `keys` of a source, but only the `rows` of self attention,
/// where the other keys are in a cache. A mask is not counted: causal needs about half the scores.
/// Of fixed heads only the projections are, without queries and without keys that nobody reads.
AttentionCount count_attention(const MultiHeadAttentionConfig& config, int64_t rows, int64_t keys);

/// As nn.Linear stores them. Views may have any strides. Biases that the config has not are empty.
struct SeparateProjections {
  View<const float, 2> query{};  // [H D, C], without fixed heads
  View<const float, 2> key{};    // [K D, Cs], likewise
  View<const float, 2> value{};  // [K Dv, Cs]
  View<const float, 1> query_bias{}, key_bias{}, value_bias{};
};

/// As nn.MultiheadAttention stores them; GPT-2's c_attn is the transposed one. Needs Cs = C.
struct FusedProjections {
  View<const float, 2> in_proj{};       // [H D + K D + K Dv, C]
  View<const float, 1> in_proj_bias{};  // [H D + K D + K Dv]
};

struct OutputProjection {
  View<const float, 2> output{};  // [C, H Dv]
  View<const float, 1> output_bias{};
};

/// The parameters of a layer, or their gradients, in one piece of memory; at first all 0.
class MultiHeadAttentionWeights {
 public:
  explicit MultiHeadAttentionWeights(const MultiHeadAttentionConfig& config)
      : MultiHeadAttentionWeights(resolve(config)) {}

  void set(const SeparateProjections& projections, const OutputProjection& output);
  void set(const FusedProjections& projections, const OutputProjection& output);

  View<float, 2> query() const { return matrix(0, shape_.queries(), shape_.C); }
  View<float, 2> key() const;
  View<float, 2> value() const;
  View<float, 2> output() const;
  View<float, 1> query_bias() const;  // biases are empty if there are none
  View<float, 1> key_bias() const;
  View<float, 1> value_bias() const;
  View<float, 1> output_bias() const;

  /// Keys and values, and all three, as one matrix each; the latter only if Cs = C.
  View<float, 2> key_value() const;
  View<float, 2> in_proj() const;
  View<float, 1> key_value_bias() const;
  View<float, 1> in_proj_bias() const;

  std::span<float> all() const { return values_.span(); }
  std::span<float> matrices() const { return all().first(first_bias_); }
  std::span<float> biases() const { return all().subspan(first_bias_); }

  /// Others of the same shape, all 0: gradients, the moments of an optimiser.
  MultiHeadAttentionWeights zeros() const { return MultiHeadAttentionWeights(shape_); }
  /// The same biases, and no memory for matrices.
  MultiHeadAttentionWeights biases_alone() const;
  const MultiHeadAttentionShape& shape() const { return shape_; }

 private:
  explicit MultiHeadAttentionWeights(MultiHeadAttentionShape shape);
  MultiHeadAttentionWeights(MultiHeadAttentionShape shape, int64_t in_matrices);
  View<float, 2> matrix(int64_t at, int64_t rows, int64_t columns) const;
  View<float, 1> bias(int64_t at, int64_t size) const;
  void set_output(const OutputProjection& output);

  MultiHeadAttentionShape shape_;
  int64_t first_bias_ = 0;
  Buffer values_;  // query, key, value, output; then the biases in this order
};

/// The attention of some heads of a layer, which lie one after the other.
struct HeadGroup {
  int64_t first = 0, count = 0;
  Attention attention{};
};

class MultiHeadAttention {
 public:
  /// Intermediate results of one forward and one backward. It can be reused for other inputs and
  /// layers and allocates only to grow. The views belong to the latest step; the caller may write
  /// to them.
  struct Pass {
    View<float, 3> q, k, v;  // of project: [T, H, D], [S, K, D], [S, K, Dv]; of fixed heads only v
    View<float, 3> z;        // room for attend: [T, H, Dv], the outputs of the heads
    View<float, 2> lse;      // room for attend: [T, H]
    View<float, 2> z_rows;   // of output_rows: z of its rows, [R, H Dv]
    View<float, 3> dz;       // of backward_output
    View<float, 3> dq, dk, dv;  // of backward_attend

    // memory of the views
    Buffer projected, projected_source, heads, sums, dprojected, dprojected_source, dheads, dvalues;
    Buffer row_heads, row_dheads;
    Buffer unpacked;  // weights of project_rows that do not begin where a panel does
  };

  struct InputGradients {
    View<float, 2> dx{};       // [T, C], or none
    View<float, 2> dsource{};  // [S, Cs], or none; only in cross attention
    bool add_to_dx = false;    // instead of overwriting
    bool add_to_dsource = false;
  };

  /// Where gradients of weights are added, made by weights().zeros(); null: they are left out.
  struct WeightGradients {
    const MultiHeadAttentionWeights* to = nullptr;
    bool matrices = true, biases = true;  // which of them are wanted
    bool grad_is_zero = false;            // gradients of matrices are all 0 and may be overwritten

    View<float, 2> matrix(View<float, 2> (MultiHeadAttentionWeights::*of)() const) const {
      return to == nullptr || !matrices ? View<float, 2>() : (to->*of)();
    }
    View<float, 1> vector(View<float, 1> (MultiHeadAttentionWeights::*of)() const) const {
      return to == nullptr || !biases ? View<float, 1>() : (to->*of)();
    }
  };

  /// Packed matrices are in the order in which the matmul reads them, and in types that must hold
  /// the numbers exactly. Plain weights are read in place, for training. Both give the same
  /// results.
  enum class Storage { packed, plain };
  struct PackedTypes {
    WeightType projections = WeightType::float32, output = WeightType::float32;
  };
  explicit MultiHeadAttention(MultiHeadAttentionWeights weights, Storage storage = Storage::packed)
      : MultiHeadAttention(std::move(weights), storage, {}) {}
  MultiHeadAttention(MultiHeadAttentionWeights weights, Storage storage, const PackedTypes& types);

  /// x [T, C]; source [S, Cs] in cross attention, none in self attention. Their columns are
  /// contiguous.
  void project(View<const float, 2> x, View<const float, 2> source, Pass& pass) const;

  /// The two halves of it in cross attention: a source is projected once for many rows.
  void project_source(View<const float, 2> source, Pass& pass) const;
  void project_queries(View<const float, 2> x, Pass& pass) const;

  /// Self attention for a subset of rows x_rows [R, C] of x [T, C]: keys and values of all rows,
  /// queries of the subset. It has no backward pass.
  void project_rows(View<const float, 2> x, View<const float, 2> x_rows, Pass& pass) const;

  /// The layer fills in q, k, v and kv_head of `params`.
  void attend(Attention params, Pass& pass, AttentionObserver* observer = nullptr) const;

  /// The same over the keys and values of a cache, which ends with those of this pass.
  void attend(Attention params, Pass& pass, const KvCache& cache,
              AttentionObserver* observer = nullptr) const;

  /// What attend computes: `all` has q of the learned heads, k and v of the layer, gates of all
  /// heads. One group for the learned heads, if any, then one for each run of equal patterns.
  std::vector<HeadGroup> groups(const Attention& all) const;

  /// attention_maps of all heads of a layer; `all` as in groups.
  AttentionMaps maps(const Attention& all, std::span<const int64_t> rows) const;

  /// out [T, C]. Of the epilogue the bias is the layer's; a residual can be added on the way.
  void output(const Pass& pass, View<float, 2> out, Epilogue epilogue = {}) const;

  /// The same for some rows alone, given in increasing order: out [R, C].
  void output_rows(std::span<const int64_t> rows, Pass& pass, View<float, 2> out,
                   Epilogue epilogue = {}) const;

  /// project, attend and output in one call.
  void forward(View<const float, 2> x, View<const float, 2> source, const Attention& params,
               Pass& pass, View<float, 2> out, const Epilogue& epilogue = {}) const;

  /// The mirror of output, attend, project: `params`, x and source are what those were given, and
  /// what the caller did to q and k must be undone to dq and dk between the last two. The mirror of
  /// output_rows takes the same rows; the others count as rows without a gradient. Of `more`, the
  /// layer fills in dq, dk, dv.
  void backward_output(View<const float, 2> dout, Pass& pass,
                       const WeightGradients& gradients) const;
  void backward_output_rows(std::span<const int64_t> rows, View<const float, 2> dout, Pass& pass,
                            const WeightGradients& gradients) const;
  void backward_attend(Attention params, Pass& pass, AttentionGradients more = {}) const;
  void backward_project(View<const float, 2> x, View<const float, 2> source, Pass& pass,
                        const InputGradients& inputs, const WeightGradients& gradients) const;

  /// Plain weights: those of the layer itself if it stores them plain, else a copy made for this
  /// call.
  std::shared_ptr<const MultiHeadAttentionWeights> weights() const;
  const MultiHeadAttentionShape& shape() const { return weights_->shape(); }

 private:
  void backward_output(View<const float, 2> z, View<const float, 2> dout, View<float, 2> dz,
                       const WeightGradients& gradients) const;
  using Matrix = View<float, 2> (MultiHeadAttentionWeights::*)() const;
  void multiply(View<const float, 2> x, Matrix weights, const PackedWeights& packed,
                View<float, 2> out, const Epilogue& epilogue) const;
  void multiply_backward(View<const float, 2> dy, Matrix weights, const PackedWeights& packed,
                         View<float, 2> dx, bool add) const;
  void point_queries(View<float, 2> rows, Pass& pass) const;
  void point_source(View<float, 2> rows, Pass& pass) const;
  void check_cross(const char* where) const;
  void check_inputs(View<const float, 2> x, View<const float, 2> source) const;
  void check_pass(const Pass& pass) const;
  void check_gradients(const MultiHeadAttentionWeights* gradients) const;
  void attend_groups(const Attention& all, Pass& pass, AttentionObserver* observer) const;
  void backward_groups(const Attention& all, Pass& pass, const AttentionGradients& gradients) const;

  std::shared_ptr<const MultiHeadAttentionWeights> weights_;  // of packed ones the biases alone
  bool packed_;
  PackedWeights input_;   // all projections in self attention, those of queries in cross attention
  PackedWeights source_;  // keys and values in cross attention
  PackedWeights output_;
};

}  // namespace headwise
