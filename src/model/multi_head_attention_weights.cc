// The shape of a layer of multi-head attention, its parameters, and how many there are.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/model/multi_head_attention.h"

namespace headwise {
namespace {

[[noreturn]] void refuse_weights(const char* what, const char* where, std::string got,
                                 std::string expected, const char* hint = "") {
  throw Error({.what = fmt::format("multi_head_attention: {}", what),
               .where = where,
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = hint});
}

void check_at_least(int64_t least, const char* where, int64_t got) {
  if (got >= least) return;
  refuse_weights("a size is too small", where, fmt::format("{}", got),
                 fmt::format("at least {}", least));
}

int64_t head_dim_of(const MultiHeadAttentionConfig& config) {
  if (config.head_dim) return *config.head_dim;
  if (config.heads == 0) return 0;
  if (config.width % config.heads != 0) {
    refuse_weights("the width does not divide among the heads", "heads",
                   fmt::format("width {}, {} heads", config.width, config.heads),
                   "a number of heads that divides the width",
                   "or set head_dim, the width of one head");
  }
  return config.width / config.heads;
}

void check_groups(const MultiHeadAttentionShape& shape) {
  if (shape.kv_head.empty()) {
    if (shape.H == 0 || (shape.K > 0 && shape.H % shape.K == 0)) return;
    refuse_weights("the query heads do not divide among the key/value heads", "kv_heads",
                   fmt::format("{} query heads, {} key/value heads", shape.H, shape.K),
                   "a number of query heads that is a multiple", "set kv_head for uneven groups");
  }
  if (static_cast<int64_t>(shape.kv_head.size()) != shape.H) {
    refuse_weights("kv_head is not one per query head", "kv_head",
                   fmt::format("{}", shape.kv_head.size()), fmt::format("{}", shape.H));
  }
  for (const int32_t kv : shape.kv_head) {
    if (kv >= 0 && kv < shape.K) continue;
    refuse_weights("kv_head names a head that is not there", "kv_head", fmt::format("{}", kv),
                   fmt::format("at least 0, below {}", shape.K));
  }
}

/// Fixed heads share the key/value heads of learned ones, or have some after all of those.
void set_fixed(MultiHeadAttentionShape& shape, std::optional<int64_t> key_heads) {
  if (shape.fixed.empty()) {
    shape.key_heads = shape.K;
    return;
  }
  if (shape.learned() < 0) {
    refuse_weights("more heads are fixed than there are", "fixed",
                   fmt::format("{}", shape.fixed.size()), fmt::format("at most {}", shape.H));
  }
  if (shape.kv_head.empty()) {
    for (int64_t h = 0; h < shape.H; ++h) {
      shape.kv_head.push_back(static_cast<int32_t>(h * shape.K / shape.H));
    }
  }
  for (int64_t h = 0; h < shape.learned(); ++h) {
    shape.key_heads = std::max<int64_t>(shape.key_heads, shape.kv_head[h] + 1);
  }
  if (!key_heads) return;
  if (*key_heads < shape.key_heads || *key_heads > shape.K) {
    refuse_weights("the heads with keys are not those that learned heads read", "key_heads",
                   fmt::format("{}", *key_heads),
                   fmt::format("{} to {}", shape.key_heads, shape.K));
  }
  shape.key_heads = *key_heads;
}

template <int R>
void copy(const char* where, View<const float, R> from, View<float, R> to) {
  if (from.shape() != to.shape()) {
    refuse_weights("the shape does not fit", where, to_string(from.shape()), to_string(to.shape()),
                   R == 2 ? "weights are [outputs, inputs]; transposed() swaps the axes"
                          : "the config says whether there are biases");
  }
  for (int64_t i = 0; i < to.extent(0); ++i) {
    if constexpr (R == 1) {
      to(i) = from(i);
    } else {
      for (int64_t j = 0; j < to.extent(1); ++j) to(i, j) = from(i, j);
    }
  }
}

int64_t key_value_rows(const MultiHeadAttentionShape& s) {
  return checked_add(checked_mul(s.key_heads, s.D), checked_mul(s.K, s.Dv));
}

int64_t projected(const MultiHeadAttentionShape& s) {
  return checked_add(checked_mul(s.learned(), s.D), key_value_rows(s));
}

int64_t matrix_numbers(const MultiHeadAttentionShape& s) {
  const int64_t of_rows = checked_add(checked_mul(s.learned(), s.D), checked_mul(s.H, s.Dv));
  return checked_add(checked_mul(of_rows, s.C), checked_mul(key_value_rows(s), s.Cs));
}

int64_t bias_numbers(const MultiHeadAttentionShape& s) {
  return checked_add(s.projection_bias ? projected(s) : 0, s.output_bias ? s.C : 0);
}

/// Biases of keys and values that stay 0.
int64_t absent_numbers(const MultiHeadAttentionShape& s) {
  if (!s.projection_bias) return 0;
  return checked_add(s.key_bias ? 0 : s.keys(), s.value_bias ? 0 : s.values());
}

}  // namespace

MultiHeadAttentionShape resolve(const MultiHeadAttentionConfig& config) {
  check_at_least(1, "width", config.width);
  check_at_least(0, "heads", config.heads);
  check_at_least(0, "kv_heads", config.kv_heads.value_or(0));
  check_at_least(1, "head_dim", config.head_dim.value_or(1));
  check_at_least(1, "value_dim", config.value_dim.value_or(1));
  check_at_least(1, "source_width", config.source_width.value_or(1));
  MultiHeadAttentionShape shape{.C = config.width,
                                .Cs = config.source_width.value_or(config.width),
                                .H = config.heads,
                                .K = config.kv_heads.value_or(config.heads),
                                .D = head_dim_of(config),
                                .cross = config.source_width.has_value(),
                                .projection_bias = config.projection_bias,
                                .output_bias = config.output_bias,
                                .key_bias = config.key_bias,
                                .value_bias = config.value_bias,
                                .kv_head = config.kv_head,
                                .fixed = config.fixed};
  shape.Dv = config.value_dim.value_or(shape.D);
  check_groups(shape);
  set_fixed(shape, config.key_heads);
  return shape;
}

AttentionCount count_attention(const MultiHeadAttentionConfig& config, int64_t rows, int64_t keys) {
  const MultiHeadAttentionShape s = resolve(config);
  const int64_t heads = checked_mul(s.learned(), checked_add(s.D, s.Dv));
  const int64_t fixed = checked_mul(checked_mul(s.H - s.learned(), s.Dv), s.C);
  const int64_t of_row = checked_add(checked_mul(heads, checked_add(s.C, keys)), fixed);
  const int64_t of_source_row = checked_mul(key_value_rows(s), s.Cs);
  return {.parameters = checked_add(matrix_numbers(s), bias_numbers(s)) - absent_numbers(s),
          .multiply_adds = checked_add(checked_mul(rows, of_row),
                                       checked_mul(s.cross ? keys : rows, of_source_row))};
}

MultiHeadAttentionWeights::MultiHeadAttentionWeights(MultiHeadAttentionShape shape)
    : MultiHeadAttentionWeights(shape, matrix_numbers(shape)) {}

MultiHeadAttentionWeights::MultiHeadAttentionWeights(MultiHeadAttentionShape shape,
                                                     int64_t in_matrices)
    : shape_(std::move(shape)),
      first_bias_(in_matrices),
      values_(Buffer::zeros(checked_add(first_bias_, bias_numbers(shape_)))) {}

void MultiHeadAttentionWeights::set(const SeparateProjections& projections,
                                    const OutputProjection& output) {
  copy("query", projections.query, query());
  copy("key", projections.key, key());
  copy("value", projections.value, value());
  copy("query_bias", projections.query_bias, query_bias());
  copy("key_bias", projections.key_bias, shape_.key_bias ? key_bias() : View<float, 1>());
  copy("value_bias", projections.value_bias, shape_.value_bias ? value_bias() : View<float, 1>());
  set_output(output);
}

void MultiHeadAttentionWeights::set(const FusedProjections& projections,
                                    const OutputProjection& output) {
  copy("in_proj", projections.in_proj, in_proj());
  copy("in_proj_bias", projections.in_proj_bias, in_proj_bias());
  set_output(output);
}

void MultiHeadAttentionWeights::set_output(const OutputProjection& projection) {
  copy("output", projection.output, output());
  copy("output_bias", projection.output_bias, output_bias());
}

MultiHeadAttentionWeights MultiHeadAttentionWeights::biases_alone() const {
  MultiHeadAttentionWeights alone(shape_, 0);
  std::ranges::copy(biases(), alone.all().begin());
  return alone;
}

View<float, 2> MultiHeadAttentionWeights::matrix(int64_t at, int64_t rows, int64_t columns) const {
  if (first_bias_ == 0) return {nullptr, {rows, columns}};
  return {values_.data() + at, {rows, columns}};
}

View<float, 1> MultiHeadAttentionWeights::bias(int64_t at, int64_t size) const {
  if (!shape_.projection_bias) return {};
  return {values_.data() + first_bias_ + at, {size}};
}

View<float, 2> MultiHeadAttentionWeights::key() const {
  return matrix(shape_.queries() * shape_.C, shape_.keys(), shape_.Cs);
}

View<float, 2> MultiHeadAttentionWeights::value() const {
  const int64_t before = shape_.queries() * shape_.C + shape_.keys() * shape_.Cs;
  return matrix(before, shape_.values(), shape_.Cs);
}

View<float, 2> MultiHeadAttentionWeights::output() const {
  return matrix(first_bias_ - shape_.C * shape_.H * shape_.Dv, shape_.C, shape_.H * shape_.Dv);
}

View<float, 2> MultiHeadAttentionWeights::key_value() const {
  return matrix(shape_.queries() * shape_.C, key_value_rows(shape_), shape_.Cs);
}

View<float, 2> MultiHeadAttentionWeights::in_proj() const {
  if (shape_.Cs != shape_.C) {
    refuse_weights("the projections are not one matrix", "in_proj",
                   fmt::format("width {}, source width {}", shape_.C, shape_.Cs), "the same width",
                   "use separate projections");
  }
  return matrix(0, projected(shape_), shape_.C);
}

View<float, 1> MultiHeadAttentionWeights::query_bias() const { return bias(0, shape_.queries()); }

View<float, 1> MultiHeadAttentionWeights::key_bias() const {
  return bias(shape_.queries(), shape_.keys());
}

View<float, 1> MultiHeadAttentionWeights::value_bias() const {
  return bias(shape_.queries() + shape_.keys(), shape_.values());
}

View<float, 1> MultiHeadAttentionWeights::key_value_bias() const {
  return bias(shape_.queries(), key_value_rows(shape_));
}

View<float, 1> MultiHeadAttentionWeights::in_proj_bias() const {
  return bias(0, projected(shape_));
}

View<float, 1> MultiHeadAttentionWeights::output_bias() const {
  if (!shape_.output_bias) return {};
  return {values_.data() + values_.size() - shape_.C, {shape_.C}};
}

}  // namespace headwise
