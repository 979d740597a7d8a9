// Multi-head attention as nodes: learned heads, fixed patterns, mixtures; rotary positions and
// relative biases.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "export/onnx_stack.h"

namespace headwise::onnx {
namespace {

bool is_identity(std::span<const int32_t> order, int64_t count) {
  if (std::ssize(order) != count) return false;
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

std::vector<int64_t> wide(std::span<const int32_t> numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace

Value StackGraph::attend(int64_t layer, bool cross, const Value& x) {
  const AttentionConfig& attention = cross ? stack_.cross[layer] : stack_.attention[layer];
  const AttentionNames& names = cross ? naming_.stack().cross : naming_.stack().self;
  const MultiHeadAttentionShape s = resolve(layer_config(config_, attention, cross));
  Texts& keys = cross ? *source_.texts : texts_;
  Projected projected = project(layer, names, s, x, cross ? source_.rows : x);
  if (config_.qk_norm && !cross) {
    projected.q = layers_.norm(projected.q, naming_.in_layer(layer, names.query_norm));
    projected.k = layers_.norm(projected.k, naming_.in_layer(layer, names.key_norm));
  }
  const Value used = attention.routing ? gates(layer, cross, *attention.routing, s.H, x) : "";
  Value z;
  if (s.H > 0) {
    std::vector<Value> groups;  // [B, heads, N, Dv]
    if (s.learned() > 0) groups.push_back(learned_heads(attention, s, keys, projected, cross));
    for (size_t first = 0, end = 0; first < s.fixed.size(); first = end) {
      while (end < s.fixed.size() && s.fixed[end] == s.fixed[first]) ++end;
      groups.push_back(fixed_heads(s, first, end - first, keys, projected.v, cross));
    }
    z = graph_.transpose(graph_.concat(groups, 1), {0, 2, 1, 3});
    if (!used.empty()) z = graph_.multiply(z, graph_.unsqueeze(used, {3}));
    z = graph_.reshape(z, {0, 0, s.H * s.Dv});
  }
  return layers_.linear(z, naming_.in_layer(layer, names.output));
}

Value StackGraph::heads_of(const Value& rows, int64_t heads, int64_t width) {
  return rows.empty() ? rows : graph_.reshape(rows, {0, 0, heads, width});
}

StackGraph::Projected StackGraph::project(int64_t layer, const AttentionNames& names,
                                          const MultiHeadAttentionShape& s, const Value& x,
                                          const Value& source) {
  const auto linear = [&](const Value& rows, std::string_view name) {
    return layers_.linear(rows, naming_.in_layer(layer, name));
  };
  const int64_t q = s.queries(), k = s.keys(), v = s.values();
  std::vector<Value> parts(3);
  switch (naming_.model().storage) {
    case ProjectionStorage::separate:
      parts = {linear(x, names.query), linear(source, names.key), linear(source, names.value)};
      break;
    case ProjectionStorage::fused: {
      const Value all = linear(x, names.query);
      if (!all.empty()) parts = graph_.split(all, {q, k, v}, 2);
      break;
    }
    case ProjectionStorage::fused_per_head: {
      const Value all = linear(x, names.query);
      if (all.empty()) return {};
      parts = graph_.split(heads_of(all, s.H, 3 * s.D), {s.D, s.D, s.D}, 3);
      return {parts[0], parts[1], parts[2]};
    }
  }
  return {heads_of(parts[0], s.learned(), s.D), heads_of(parts[1], s.key_heads, s.D),
          heads_of(parts[2], s.K, s.Dv)};
}

/// Keys or values [B, N, K, width], one for each query head.
Value StackGraph::of_heads(const Value& kv, int64_t kv_heads, std::span<const int32_t> kv_head) {
  return is_identity(kv_head, kv_heads) ? kv : graph_.gather(kv, graph_.list(wide(kv_head)), 2);
}

Value StackGraph::learned_heads(const AttentionConfig& attention, const MultiHeadAttentionShape& s,
                                Texts& keys, const Projected& projected, bool cross) {
  Value q = projected.q, k = projected.k;
  if (!cross && attention.rotary) {
    q = rotate(q, s.D);
    k = rotate(k, s.D);
  }
  const auto kv_head = std::span(s.kv_head).first(s.learned());
  k = graph_.transpose(of_heads(k, s.key_heads, kv_head), {0, 2, 3, 1});
  const Value v = graph_.transpose(of_heads(projected.v, s.K, kv_head), {0, 2, 1, 3});
  const auto width = static_cast<float>(s.D);
  q = layers_.scale(graph_.transpose(q, {0, 2, 1, 3}),
                    attention.scale.value_or(1 / std::sqrt(width)));
  Value scores = graph_.product(q, k);
  if (!cross && config_.relative.buckets > 0) {
    scores = graph_.add(scores, relative_bias(attention));
  }
  const bool causal = !cross && stack_.causal;
  scores = graph_.add(scores, keys.scores({.causal = causal, .left = attention.left}));
  return graph_.product(graph_.node("Softmax", {scores}, {{"axis", int64_t{-1}}}), v);
}

/// Some of the heads with fixed patterns, which have the same one.
Value StackGraph::fixed_heads(const MultiHeadAttentionShape& s, size_t first, size_t count,
                              Texts& keys, const Value& v, bool cross) {
  const auto kv_head = std::span(s.kv_head).subspan(s.learned() + first, count);
  const Value values = graph_.transpose(of_heads(v, s.K, kv_head), {0, 2, 1, 3});
  const bool causal = !cross && stack_.causal;
  const Value z = graph_.product(keys.weights(mask_of(s.fixed[first], causal)), values);
  // A pattern that is the same for all rows has one.
  const Value rows =
      graph_.concat({graph_.list({1, 1}), graph_.extent(texts_.mask(), 1), graph_.list({1})}, 0);
  return graph_.node("Expand", {z, rows});
}

/// [B, N, H]: how much every row uses of every head of a mixture.
Value StackGraph::gates(int64_t layer, bool cross, const RoutingConfig& routing, int64_t heads,
                        const Value& x) {
  const int64_t R = std::ssize(routing.heads);
  const Value p =
      graph_.node("Softmax", {layers_.linear(x, naming_.in_layer(layer, router_name(cross)))},
                  {{"axis", int64_t{-1}}});
  const Value zeros = layers_.scale(p, 0);
  const auto [largest, indices] = graph_.largest(p, routing.active);
  const Value chosen =
      graph_.node("ScatterElements", {zeros, indices, largest}, {{"axis", int64_t{-1}}});
  // The last column is of the heads that all rows use.
  const Value one =
      graph_.add(graph_.node("ReduceSum", {zeros, graph_.list({-1})}), graph_.scalar(1.f));
  std::vector<int64_t> columns(heads, R);
  for (int64_t r = 0; r < R; ++r) {
    if (routing.heads[r] >= 0) columns[routing.heads[r]] = r;
  }
  return graph_.gather(graph_.concat({layers_.scale(chosen, static_cast<float>(R)), one}, 2),
                       graph_.list(columns), 2);
}

/// [heads, N, N], added to scores.
Value StackGraph::relative_bias(const AttentionConfig& attention) {
  if (biases_.empty()) {
    const int64_t reach = config_.relative.max_distance;
    const std::vector<int32_t> buckets =
        t5_buckets(config_.relative.buckets, reach, !stack_.causal);
    const Value near =
        graph_.node("Clip", {texts_.distances(), graph_.scalar(-reach), graph_.scalar(reach)});
    const Value bucket =
        graph_.gather(graph_.list(wide(buckets)), graph_.add(near, graph_.scalar(reach)), 0);
    const std::string table = naming_.full(naming_.stack().relative_bias) + ".weight";
    biases_ = graph_.transpose(graph_.gather(layers_.weight(table), bucket, 0), {2, 0, 1});
  }
  if (is_identity(attention.heads, stack_.heads)) return biases_;
  return graph_.gather(biases_, graph_.list(wide(attention.heads)), 0);
}

/// Frequencies [B, 1, pairs] that "dynamic" scaling gives texts that are longer than the model's.
Value StackGraph::dynamic_ntk_frequencies() {
  const RotaryConfig& rotary = config_.rotary;
  const auto width = static_cast<double>(rotary.width),
             most = static_cast<double>(config_.max_positions);
  std::vector<float> exponents;
  for (int64_t i = 0; i < rotary.width; i += 2) {
    exponents.push_back(static_cast<float>(i) / static_cast<float>(rotary.width));
  }
  const int64_t pairs = std::ssize(exponents);
  const auto scalar = [&](double value) { return graph_.scalar(value); };
  const Value length = graph_.cast(
      graph_.unsqueeze(graph_.node("ReduceSum", {texts_.mask(), graph_.list({1})}), {2}),
      Type::float64);
  const Value growth =
      graph_.node("Div", {graph_.node("Max", {length, scalar(most)}), scalar(most)});
  const Value grown = graph_.node("Sub", {graph_.multiply(growth, scalar(rotary.dynamic_factor)),
                                          scalar(rotary.dynamic_factor - 1)});
  const Value base =
      graph_.cast(graph_.multiply(graph_.node("Pow", {grown, scalar(width / (width - 2))}),
                                  scalar(rotary.theta)),
                  Type::float32);
  const Value scaled =
      graph_.node("Reciprocal", {graph_.node("Pow", {base, graph_.floats(exponents, {pairs})})});
  return graph_.node("Where", {graph_.node("Greater", {length, scalar(most)}), scaled,
                               graph_.floats(rotary.inverse_frequencies, {pairs})});
}

void StackGraph::make_rotary() {
  const RotaryConfig& rotary = config_.rotary;
  const Value positions = graph_.unsqueeze(graph_.cast(texts_.positions(), Type::float32), {2});
  const Value frequencies =
      rotary.dynamic_factor > 0
          ? dynamic_ntk_frequencies()
          : graph_.floats(rotary.inverse_frequencies, {std::ssize(rotary.inverse_frequencies)});
  const Value angles = graph_.unsqueeze(graph_.multiply(positions, frequencies), {2});
  const auto factor = static_cast<float>(rotary.attention_factor);
  cosines_ = layers_.scale(graph_.node("Cos", {angles}), factor);
  sines_ = layers_.scale(graph_.node("Sin", {angles}), factor);
}

/// Queries or keys [B, N, heads, width], turned by their positions.
Value StackGraph::rotate(const Value& x, int64_t width) {
  if (config_.positions != PositionKind::rotary || config_.rotary.width == 0) return x;
  if (cosines_.empty()) make_rotary();
  const int64_t half = config_.rotary.width / 2;
  const std::vector<Value> parts = graph_.split(x, {half, half, width - 2 * half}, 3);
  const auto times = [&](const Value& a, const Value& b) { return graph_.multiply(a, b); };
  std::vector<Value> rotated = {
      graph_.node("Sub", {times(parts[0], cosines_), times(parts[1], sines_)}),
      graph_.add(times(parts[1], cosines_), times(parts[0], sines_))};
  if (!parts[2].empty()) rotated.push_back(parts[2]);
  return graph_.concat(rotated, 3);
}

}  // namespace headwise::onnx
