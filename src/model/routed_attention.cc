// Gathers the rows of every routed head, and computes it for them.
#include "model/routed_attention.h"

#include <algorithm>
#include <utility>

namespace headwise {
namespace {

template <class T>
View<T, 2> block(View<T, 2> matrix, int64_t first_column, int64_t columns) {
  return {matrix.data() + first_column, {matrix.extent(0), columns}, matrix.strides()};
}

View<const float, 3> head_of(View<const float, 3> all, int64_t head) {
  return {all.data() + head * all.stride(1), {all.extent(0), 1, all.extent(2)}, all.strides()};
}

std::vector<int32_t> unrouted(int64_t heads, const RoutingConfig& routing) {
  std::vector<int32_t> rest;
  for (int32_t head = 0; head < heads; ++head) {
    if (std::ranges::find(routing.heads, head) == routing.heads.end()) rest.push_back(head);
  }
  return rest;
}

void copy_values(View<const float, 2> from, View<float, 2> to) {
  for (int64_t i = 0; i < to.extent(0); ++i) std::copy_n(&from(i, 0), to.extent(1), &to(i, 0));
}

void copy_values(View<const float, 1> from, View<float, 1> to) {
  std::copy_n(from.data(), to.extent(0), to.data());
}

/// A layer with some of the heads of another one, the learned ones first, and all of its keys and
/// values.
MultiHeadAttention layer_of(const MultiHeadAttention& all, const std::vector<int32_t>& heads) {
  const MultiHeadAttentionShape& s = all.shape();
  MultiHeadAttentionConfig config{.width = s.C,
                                  .heads = std::ssize(heads),
                                  .kv_heads = s.K,
                                  .head_dim = s.D,
                                  .value_dim = s.Dv,
                                  .source_width = s.cross ? std::optional(s.Cs) : std::nullopt,
                                  .projection_bias = s.projection_bias,
                                  .key_bias = s.key_bias,
                                  .value_bias = s.value_bias,
                                  .output_bias = s.output_bias,
                                  .fixed = s.fixed,
                                  .key_heads = s.key_heads};
  for (const int32_t head : heads) {
    config.kv_head.push_back(static_cast<int32_t>(s.kv_of(head)));
  }
  MultiHeadAttentionWeights weights(config);
  const auto weights_of_all = all.weights();
  const MultiHeadAttentionWeights& from = *weights_of_all;
  const int64_t learned = weights.shape().learned();
  for (int64_t i = 0; i < learned; ++i) {
    copy_values(from.query().rows(heads[i] * s.D, (heads[i] + 1) * s.D),
                weights.query().rows(i * s.D, (i + 1) * s.D));
  }
  copy_values(from.key_value(), weights.key_value());
  for (int64_t i = 0; i < std::ssize(heads); ++i) {
    copy_values(block(from.output(), heads[i] * s.Dv, s.Dv),
                block(weights.output(), i * s.Dv, s.Dv));
  }
  if (s.projection_bias) {
    for (int64_t i = 0; i < learned * s.D; ++i) {
      weights.query_bias()(i) = from.query_bias()(heads[i / s.D] * s.D + i % s.D);
    }
    copy_values(from.key_value_bias(), weights.key_value_bias());
  }
  if (s.output_bias) copy_values(from.output_bias(), weights.output_bias());
  return MultiHeadAttention(std::move(weights));
}

}  // namespace

RoutedAttention::RoutedAttention(const MultiHeadAttention& all, const RoutingConfig& routing)
    : always_(unrouted(all.shape().H, routing)), shared_(layer_of(all, always_)) {
  const MultiHeadAttentionShape& s = all.shape();
  const auto weights = all.weights();
  const MultiHeadAttentionWeights& w = *weights;
  for (const int32_t index : routing.heads) {
    if (index < 0) continue;
    Head head{.index = index,
              .kv = static_cast<int32_t>(s.kv_of(index)),
              .query = PackedWeights(w.query().rows(index * s.D, (index + 1) * s.D)),
              .output = PackedWeights(block(w.output(), index * s.Dv, s.Dv))};
    if (s.projection_bias) {
      head.query_bias = Buffer(s.D);
      std::copy_n(w.query_bias().data() + index * s.D, s.D, head.query_bias.data());
    }
    heads_.push_back(std::move(head));
  }
}

View<const float, 2> RoutedAttention::shared_gates(View<const float, 2> gates,
                                                   Scratch& scratch) const {
  const int64_t T = gates.extent(0), count = std::ssize(always_);
  const View<float, 2> some(scratch.shared_gates.at_least(T * count), {T, count});
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t i = 0; i < count; ++i) some(t, i) = gates(t, always_[i]);
  }
  return some;
}

void RoutedAttention::add(const Rows& rows, View<float, 2> out, Scratch& scratch) const {
  for (const Head& head : heads_) add_head(head, rows, out, scratch);
}

void RoutedAttention::add_head(const Head& head, const Rows& rows, View<float, 2> out,
                               Scratch& scratch) const {
  std::vector<int64_t> used, offsets = {0}, positions;
  for (size_t b = 0; b + 1 < rows.params.q_offsets.size(); ++b) {
    for (int64_t t = rows.params.q_offsets[b]; t < rows.params.q_offsets[b + 1]; ++t) {
      if (rows.params.gates(t, head.index) == 0) continue;
      used.push_back(t);
      positions.push_back(rows.positions[t]);
    }
    offsets.push_back(std::ssize(used));
  }
  const auto n = std::ssize(used);
  if (n == 0) return;
  const MultiHeadAttentionShape& s = shared_.shape();
  const View<float, 2> x(scratch.x.at_least(n * s.C), {n, s.C});
  const View<float, 2> gates(scratch.head_gates.at_least(n), {n, 1});
  for (int64_t i = 0; i < n; ++i) {
    std::copy_n(&rows.x(used[i], 0), s.C, &x(i, 0));
    gates(i, 0) = rows.params.gates(used[i], head.index);
  }
  const View<float, 2> queries(scratch.queries.at_least(n * s.D), {n, s.D});
  Epilogue bias;
  if (head.query_bias.size() > 0) bias.bias = head.query_bias.view({s.D});
  linear(x, head.query, queries, bias);

  Attention params = rows.params;
  params.q = View<const float, 3>(queries.data(), {n, 1, s.D});
  if (rows.prepare) rows.prepare({queries.data(), {n, 1, s.D}}, positions);
  params.k = head_of(rows.params.k, head.kv);
  params.v = head_of(rows.params.v, head.kv);
  if (params.k_offsets.empty()) params.k_offsets = rows.params.q_offsets;
  params.q_offsets = offsets;
  params.positions = positions;  // the default ones are of rows without gaps
  params.kv_head = {};
  params.gates = gates;
  params.gate_scope = GateScope::kRow;
  const View<float, 2> z(scratch.z.at_least(n * s.Dv), {n, s.Dv});
  attention_forward(params, {z.data(), {n, 1, s.Dv}});

  const View<float, 2> share(scratch.out.at_least(n * s.C), {n, s.C});
  linear(z, head.output, share);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t c = 0; c < s.C; ++c) out(used[i], c) += share(i, c);
  }
}

}  // namespace headwise
