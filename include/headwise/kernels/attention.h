// Multi-head attention on the CPU, tiled and fused: the N x N weights are never stored.
//
// Letters: B sequences, T query rows of all sequences together, S key rows likewise, N and M the
// query and key rows of one sequence, H query heads, K key/value heads, D head width, Dv value
// width.
//
// clang-format off
// For a row at position i of its sequence, on head h, and key j visible to it:
//   score   s[j] = cap(scale * q . k[j]) + bias_h(i, j)      cap(x) = x, or softcap * tanh(x / softcap)
//   weight  p[j] = exp(s[j] - lse)                            lse = log (exp(sink_h) + sum_j exp(s[j])) over the visible keys
//   output  out  = gate * sum_j drop(p[j]) * v[j]
// clang-format on
//
// bias_h(i, j) is the sum of ALiBi, the relative bias and the dense bias; without sinks exp(sink_h)
// is 0. A row that sees no key has output 0, lse -infinity and no gradient. Masked keys do not
// affect a row, even if they are NaN. D and Dv are 1 to 8192; H = 0, T = 0 and S = 0 are allowed.
// Shapes that do not match throw Error. Results have the same bits for any number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headwise/core/view.h"
#include "headwise/kernels/attention_observer.h"

namespace headwise {

inline constexpr int64_t kUnlimited = -1;

/// A row at position i sees key j iff i + shift - left <= j <= i + shift + right, j < first_keys,
/// and j is a real key. Causal adds j <= i.
struct AttentionMask {
  bool causal = false;
  int64_t left = kUnlimited;
  int64_t right = kUnlimited;
  int64_t shift = 0;
  int64_t first_keys = kUnlimited;

  bool operator==(const AttentionMask&) const = default;
};

/// A learned bias table(h, bucket), the bucket chosen by the distance j - i, as in T5 and MPNet.
struct RelativeBias {
  View<const float, 2> table{};  // [H, R]; empty: no such bias
  /// [2 * reach + 1]: the bucket of distance d is buckets[d + reach]; farther counts as the reach.
  std::span<const int32_t> buckets{};
};

/// The buckets of T5 (`bidirectional` in encoders) and MPNet, for RelativeBias::buckets.
std::vector<int32_t> t5_buckets(int64_t buckets, int64_t max_distance, bool bidirectional);

enum class GateScope { kHead, kSequence, kRow };

/// The inputs and parameters of one attention. Views may have any strides,
/// so that the output of a fused QKV product is used in place.
struct Attention {
  View<const float, 3> q{};  // [T, H, D]
  View<const float, 3> k{};  // [S, K, D]
  View<const float, 3> v{};  // [S, K, Dv]

  // Sequence b has query rows q_offsets[b] … q_offsets[b+1]-1, and keys likewise: [B+1] each.
  std::span<const int64_t> q_offsets{};
  std::span<const int64_t> k_offsets{};  // empty: the same as q_offsets
  // [B] or empty. Rows past the length are padding and get output 0; keys past it nobody sees.
  std::span<const int64_t> q_lengths{};
  std::span<const int64_t> k_lengths{};
  // [H], the key/value head of each query head; empty: h * K / H, and H a multiple of K.
  std::span<const int32_t> kv_head{};
  // [T], each row's position on the key axis of its sequence; empty: i + M - N, padding counted,
  // which puts the last row beside the last key.
  std::span<const int64_t> positions{};

  AttentionMask mask{};
  std::optional<float> scale{};           // 1 / sqrt(D) unless given
  float softcap = 0;                      // 0: off
  std::span<const float> alibi_slopes{};  // [H] or empty: adds -slope[h] * |j - i|
  RelativeBias relative_bias{};
  /// [B, H, N or more, M or more]: added to the score of row i and key j of a sequence. The keys
  /// lie one after the other; a stride of 0 shares the bias between sequences, heads or rows.
  /// Values below -1e30 count as -1e30, so a row with nothing but -infinity attends evenly; NaN
  /// shows.
  View<const float, 4> bias{};
  /// [H] or empty: the score of an extra key without a value. Its weight goes to no key.
  std::span<const float> sinks{};

  float dropout = 0;       // of weights, in [0, 1)
  float head_dropout = 0;  // of whole heads, drawn per sequence, in [0, 1]
  uint64_t seed = 0;       // of both; backward recomputes what forward drew

  // [1, H], [B, H] or [T, H] by scope, finite; empty: all 1. A gate of exactly 0 skips the work
  // unless an observer must see it.
  View<const float, 2> gates{};
  GateScope gate_scope = GateScope::kHead;
};

/// out [T, H, Dv] is overwritten; so is lse [T, H] unless empty (-infinity where the work was
/// skipped). The observer, if any, is added to.
void attention_forward(const Attention& attention, View<float, 3> out, View<float, 2> lse = {},
                       AttentionObserver* observer = nullptr);

/// Where gradients go; all are overwritten, empty ones are left out. dq, dk, dv may be strided as
/// q, k, v.
struct AttentionGradients {
  View<float, 3> dq{};         // [T, H, D]
  View<float, 3> dk{};         // [S, K, D]
  View<float, 3> dv{};         // [S, K, Dv]
  View<float, 2> dgates{};     // shaped as the gates
  View<float, 2> dtable{};     // [H, R], of the relative bias
  View<float, 4> dbias{};      // of the dense bias before sharing: [B, H, N or more, M or more]
  std::span<float> dsinks{};   // [H]
  bool at_zero_gates = false;  // compute dgates also where the gate is 0; otherwise it is 0 there
};

/// Gradients of a loss whose gradient for `out` is `dout`; `out` and `lse` are what forward gave.
void attention_backward(const Attention& attention, View<const float, 3> out,
                        View<const float, 2> lse, View<const float, 3> dout,
                        const AttentionGradients& gradients);

/// Attention weights of chosen rows. This is the only function that stores maps.
struct AttentionMaps {
  std::vector<float>
      weights;  // for each row, for each head, the weights on all M keys of its sequence
  std::vector<int64_t> offsets{};  // [rows * H + 1] into weights
  int64_t heads = 0;

  std::span<const float> row(int64_t index, int64_t head) const {
    const int64_t at = index * heads + head;
    return std::span(weights).subspan(offsets[at], offsets[at + 1] - offsets[at]);
  }
};

/// The weights, before dropout and gates, of the given rows of [0, T), in the order given. Those of
/// a row sum to 1, or to 1 less the weight of the sink.
AttentionMaps attention_maps(const Attention& attention, std::span<const int64_t> rows);

/// sums(a, b) += the Jensen-Shannon divergences (nats) of heads a and b, summed over all rows that
/// see a key. The weights are recomputed from the scores and the saved lse. Returns the number of
/// rows. Throws Error for sinks: without theirs, the weights are no distribution.
int64_t attention_js(const Attention& attention, View<const float, 2> lse, View<double, 2> sums);

/// An attention and the lse [T, H] that its forward pass gave.
struct AttendedHeads {
  Attention attention{};
  View<const float, 2> lse{};
};

/// The same for heads of several attentions A, numbered through, H in all: sums [H, H], and
/// rows [A, A] += the rows that see a key in both. Layers, or heads of one layer with other masks:
/// rows and keys of their sequences are the same.
void attention_js(std::span<const AttendedHeads> attentions, View<double, 2> sums,
                  View<int64_t, 2> rows);

}  // namespace headwise
