// The steps of multi-head attention: where their numbers lie, and the products between them.
#include "headwise/model/multi_head_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"
#include "headwise/kernels/unpack.h"
#include "io/from_float.h"
#include "model/gather_rows.h"

namespace headwise {
namespace {

using W = MultiHeadAttentionWeights;

PackedWeights packed_as(WeightType type, View<const float, 2> weights) {
  if (type == WeightType::float32) return PackedWeights(weights);
  AlignedBuffer<uint16_t> halves(checked_mul(weights.extent(0), weights.extent(1)));
  from_float(type == WeightType::float16 ? Dtype::kF16 : Dtype::kBF16,
             {weights.data(), static_cast<size_t>(halves.size())},
             std::as_writable_bytes(halves.span()));
  return PackedWeights(View<const uint16_t, 2>(halves.data(), weights.shape()), type);
}

void check_increasing(std::span<const int64_t> rows, int64_t end) {
  int64_t least = 0;
  for (const int64_t row : rows) {
    if (row < least || row >= end) {
      throw Error({.what = "multi_head_attention: there is no such row, or not in this order",
                   .where = "rows",
                   .got = fmt::format("{}", row),
                   .expected = fmt::format("{} to {}", least, end - 1)});
    }
    least = row + 1;
  }
}

template <class Shape>
void check_shape(const char* where, const Shape& got, const Shape& expected,
                 const char* hint = "") {
  if (got == expected) return;
  throw Error({.what = "multi_head_attention: the shape does not fit",
               .where = where,
               .got = to_string(got),
               .expected = to_string(expected),
               .hint = hint});
}

/// Room for a matrix.
View<float, 2> room(Buffer& buffer, int64_t rows, int64_t columns) {
  return {buffer.at_least(checked_mul(rows, columns)), {rows, columns}};
}

View<float, 2> columns(View<float, 2> matrix, int64_t first, int64_t count) {
  float* const data = matrix.data() == nullptr ? nullptr : matrix.data() + first;
  return {data, {matrix.extent(0), count}, matrix.strides()};
}

/// `heads` heads of `width` columns each, from column `first`.
View<float, 3> heads_of(View<float, 2> rows, int64_t first, int64_t heads, int64_t width) {
  return {columns(rows, first, 0).data(),
          {rows.extent(0), heads, width},
          {rows.stride(0), static_cast<ptrdiff_t>(width), 1}};
}

int64_t key_value_width(const MultiHeadAttentionShape& s) { return s.keys() + s.values(); }

/// The same memory, without a head axis.
View<float, 2> joined(View<float, 3> heads) {
  return {heads.data(), {heads.extent(0), heads.extent(1) * heads.extent(2)}};
}

View<float, 2> room_like(Buffer& buffer, View<const float, 2> other) {
  return room(buffer, other.extent(0), other.extent(1));
}

void clear(View<float, 1> vector) {
  for (int64_t i = 0; i < vector.extent(0); ++i) vector(i) = 0;
}

/// out = the products with the outputs of the weights from `begin` on.
void linear_rows(View<const float, 2> x, const PackedWeights& weights, int64_t begin,
                 View<float, 2> out, const Epilogue& epilogue, Buffer& unpacked) {
  if (begin % kPackedColumns == 0) return linear_columns(x, weights, begin, out, epilogue);
  const View<float, 2> plain = room(unpacked, out.extent(1), weights.inputs());
  unpack(weights, begin, plain);
  gemm(x, transposed<const float>(plain), out, epilogue);
}

/// Gradients of a projection's weights, where they are wanted.
void add_gradients(View<const float, 2> x, View<const float, 2> dy,
                   const MultiHeadAttention::WeightGradients& gradients,
                   View<float, 2> (W::*weights)() const, View<float, 1> (W::*bias)() const) {
  const View<float, 2> dweights = gradients.matrix(weights);
  if (dweights.data() != nullptr) {
    gemm(transposed(dy), x, dweights, {.accumulate = !gradients.grad_is_zero});
  }
  const View<float, 1> dbias = gradients.vector(bias);
  if (dbias.data() != nullptr) sum_rows(dy, dbias);
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(MultiHeadAttentionWeights weights, Storage storage,
                                       const PackedTypes& types)
    : packed_(storage == Storage::packed) {
  if (!packed_) {
    weights_ = std::make_shared<const MultiHeadAttentionWeights>(std::move(weights));
    return;
  }
  const bool cross = weights.shape().cross;
  input_ = packed_as(types.projections, cross ? weights.query() : weights.in_proj());
  if (cross) source_ = packed_as(types.projections, weights.key_value());
  output_ = packed_as(types.output, weights.output());
  weights_ = std::make_shared<const MultiHeadAttentionWeights>(weights.biases_alone());
}

std::shared_ptr<const MultiHeadAttentionWeights> MultiHeadAttention::weights() const {
  if (!packed_) return weights_;
  MultiHeadAttentionWeights all = weights_->zeros();
  unpack(input_, shape().cross ? all.query() : all.in_proj());
  if (shape().cross) unpack(source_, all.key_value());
  unpack(output_, all.output());
  std::ranges::copy(weights_->biases(), all.biases().begin());
  return std::make_shared<const MultiHeadAttentionWeights>(std::move(all));
}

void MultiHeadAttention::multiply(View<const float, 2> x, Matrix weights,
                                  const PackedWeights& packed, View<float, 2> out,
                                  const Epilogue& epilogue) const {
  if (packed_) return linear(x, packed, out, epilogue);
  gemm(x, transposed<const float>(((*weights_).*weights)()), out, epilogue);
}

void MultiHeadAttention::multiply_backward(View<const float, 2> dy, Matrix weights,
                                           const PackedWeights& packed, View<float, 2> dx,
                                           bool add) const {
  if (dx.data() == nullptr) return;
  if (packed_) return linear_backward(dy, packed, dx, add);
  gemm(dy, ((*weights_).*weights)(), dx, {.accumulate = add});
}

void MultiHeadAttention::project(View<const float, 2> x, View<const float, 2> source,
                                 Pass& pass) const {
  if (shape().cross) {
    project_source(source, pass);
    project_queries(x, pass);
    return;
  }
  check_inputs(x, source);
  const int64_t q = shape().queries(), kv = key_value_width(shape());
  const View<float, 2> all = room(pass.projected, x.extent(0), q + kv);
  point_source(columns(all, q, kv), pass);
  point_queries(columns(all, 0, q), pass);
  multiply(x, &W::in_proj, input_, all, {.bias = weights_->in_proj_bias()});
}

void MultiHeadAttention::project_source(View<const float, 2> source, Pass& pass) const {
  check_cross("project_source");
  check_shape("source", source.shape(), {source.extent(0), shape().Cs});
  const View<float, 2> to = room(pass.projected_source, source.extent(0), key_value_width(shape()));
  point_source(to, pass);
  multiply(source, &W::key_value, source_, to, {.bias = weights_->key_value_bias()});
}

void MultiHeadAttention::project_queries(View<const float, 2> x, Pass& pass) const {
  check_cross("project_queries");
  check_shape("x", x.shape(), {x.extent(0), shape().C});
  const View<float, 2> to = room(pass.projected, x.extent(0), shape().queries());
  point_queries(to, pass);
  multiply(x, &W::query, input_, to, {.bias = weights_->query_bias()});
}

void MultiHeadAttention::project_rows(View<const float, 2> x, View<const float, 2> x_rows,
                                      Pass& pass) const {
  check_inputs(x, {});
  check_shape("x_rows", x_rows.shape(), {x_rows.extent(0), shape().C});
  const View<float, 2> to = room(pass.projected_source, x.extent(0), key_value_width(shape()));
  const View<float, 2> queries = room(pass.projected, x_rows.extent(0), shape().queries());
  point_source(to, pass);
  point_queries(queries, pass);
  if (packed_) {
    linear_rows(x, input_, shape().queries(), to, {.bias = weights_->key_value_bias()},
                pass.unpacked);
    linear_columns(x_rows, input_, 0, queries, {.bias = weights_->query_bias()});
    return;
  }
  gemm(x, transposed<const float>(weights_->key_value()), to, {.bias = weights_->key_value_bias()});
  gemm(x_rows, transposed<const float>(weights_->query()), queries,
       {.bias = weights_->query_bias()});
}

void MultiHeadAttention::point_queries(View<float, 2> rows, Pass& pass) const {
  const auto& s = shape();
  const int64_t T = rows.extent(0);
  pass.q = heads_of(rows, 0, s.learned(), s.D);
  pass.z = {pass.heads.at_least(checked_mul(T, s.H * s.Dv)), {T, s.H, s.Dv}};
  pass.lse = {pass.sums.at_least(checked_mul(T, s.H)), {T, s.H}};
  pass.z_rows = {};
  pass.dz = pass.dq = pass.dk = pass.dv = {};
}

void MultiHeadAttention::point_source(View<float, 2> rows, Pass& pass) const {
  const auto& s = shape();
  pass.k = heads_of(rows, 0, s.key_heads, s.D);
  pass.v = heads_of(rows, s.keys(), s.K, s.Dv);
}

void MultiHeadAttention::attend(Attention params, Pass& pass, AttentionObserver* observer) const {
  check_pass(pass);
  params.q = pass.q;
  params.k = pass.k;
  params.v = pass.v;
  attend_groups(params, pass, observer);
}

void MultiHeadAttention::attend(Attention params, Pass& pass, const KvCache& cache,
                                AttentionObserver* observer) const {
  check_pass(pass);
  params.q = pass.q;
  const CachedAttention cached(params, cache);
  attend_groups(cached.attention(), pass, observer);
}

void MultiHeadAttention::output(const Pass& pass, View<float, 2> out, Epilogue epilogue) const {
  check_pass(pass);
  check_shape("out", out.shape(), {pass.z.extent(0), shape().C});
  epilogue.bias = weights_->output_bias();
  multiply(joined(pass.z), &W::output, output_, out, epilogue);
}

void MultiHeadAttention::output_rows(std::span<const int64_t> rows, Pass& pass, View<float, 2> out,
                                     Epilogue epilogue) const {
  check_pass(pass);
  check_shape("out", out.shape(), {std::ssize(rows), shape().C});
  check_increasing(rows, pass.z.extent(0));
  const View<float, 2> z = joined(pass.z);
  pass.z_rows = room(pass.row_heads, std::ssize(rows), z.extent(1));
  gather_rows(z, rows, pass.z_rows);
  epilogue.bias = weights_->output_bias();
  multiply(pass.z_rows, &W::output, output_, out, epilogue);
}

void MultiHeadAttention::forward(View<const float, 2> x, View<const float, 2> source,
                                 const Attention& params, Pass& pass, View<float, 2> out,
                                 const Epilogue& epilogue) const {
  project(x, source, pass);
  attend(params, pass);
  output(pass, out, epilogue);
}

void MultiHeadAttention::backward_output(View<const float, 2> dout, Pass& pass,
                                         const WeightGradients& gradients) const {
  check_pass(pass);
  check_gradients(gradients.to);
  check_shape("dout", dout.shape(), {pass.z.extent(0), shape().C});
  pass.dz = {room_like(pass.dheads, joined(pass.z)).data(), pass.z.shape()};
  backward_output(joined(pass.z), dout, joined(pass.dz), gradients);
}

void MultiHeadAttention::backward_output_rows(std::span<const int64_t> rows,
                                              View<const float, 2> dout, Pass& pass,
                                              const WeightGradients& gradients) const {
  check_pass(pass);
  check_gradients(gradients.to);
  check_shape("dout", dout.shape(), {std::ssize(rows), shape().C});
  check_increasing(rows, pass.z.extent(0));
  check_shape("z_rows", pass.z_rows.shape(), {std::ssize(rows), shape().H * shape().Dv},
              "output_rows comes first, with the same rows");
  const View<float, 2> dz_rows = room_like(pass.row_dheads, pass.z_rows);
  backward_output(pass.z_rows, dout, dz_rows, gradients);
  pass.dz = {room_like(pass.dheads, joined(pass.z)).data(), pass.z.shape()};
  scatter_rows(dz_rows, rows, joined(pass.dz));
}

void MultiHeadAttention::backward_output(View<const float, 2> z, View<const float, 2> dout,
                                         View<float, 2> dz,
                                         const WeightGradients& gradients) const {
  multiply_backward(dout, &W::output, output_, dz, false);
  add_gradients(z, dout, gradients, &W::output, &W::output_bias);
}

void MultiHeadAttention::backward_attend(Attention params, Pass& pass,
                                         AttentionGradients more) const {
  check_pass(pass);
  check_shape("dz", pass.dz.shape(), pass.z.shape(), "backward_output comes first");
  if (!shape().cross && pass.q.extent(0) != pass.k.extent(0)) {
    throw Error({.what = "multi_head_attention: only some rows were projected",
                 .where = "backward_attend",
                 .got = fmt::format("{} of {}", pass.q.extent(0), pass.k.extent(0)),
                 .expected = "all",
                 .hint = "project is the step that has a way back"});
  }
  const auto& s = shape();
  const int64_t T = pass.q.extent(0), q = s.queries(), kv = key_value_width(s);
  const View<float, 2> all = room(pass.dprojected, T, s.cross ? q : q + kv);
  const View<float, 2> source =
      s.cross ? room(pass.dprojected_source, pass.k.extent(0), kv) : columns(all, q, kv);
  pass.dq = more.dq = heads_of(columns(all, 0, q), 0, s.learned(), s.D);
  pass.dk = more.dk = heads_of(source, 0, s.key_heads, s.D);
  pass.dv = more.dv = heads_of(source, s.keys(), s.K, s.Dv);
  params.q = pass.q;
  params.k = pass.k;
  params.v = pass.v;
  backward_groups(params, pass, more);
}

void MultiHeadAttention::backward_project(View<const float, 2> x, View<const float, 2> source,
                                          Pass& pass, const InputGradients& inputs,
                                          const WeightGradients& gradients) const {
  check_pass(pass);
  check_gradients(gradients.to);
  check_inputs(x, source);
  const auto& s = shape();
  const int64_t T = pass.q.extent(0), S = pass.k.extent(0);
  check_shape("x", x.shape(), {T, s.C}, "give what project was given");
  if (s.cross) check_shape("source", source.shape(), {S, s.Cs}, "give what project was given");
  check_shape("dq", pass.dq.shape(), pass.q.shape(), "backward_attend comes first");
  if (inputs.dx.data() != nullptr) check_shape("dx", inputs.dx.shape(), {T, s.C});
  if (inputs.dsource.data() != nullptr) {
    check_shape("dsource", inputs.dsource.shape(), {s.cross ? S : 0, s.Cs},
                s.cross ? "" : "in self attention everything is in dx");
  }
  const auto rows_of = [&](const View<float, 3>& first, int64_t columns) {
    return View<const float, 2>(first.data(), {first.extent(0), columns}, {first.stride(0), 1});
  };
  const int64_t q = s.queries(), kv = key_value_width(s);
  const View<const float, 2> dq = rows_of(pass.dq, s.cross ? q : q + kv);
  if (s.cross) {
    const View<const float, 2> dkv = rows_of(pass.dk, kv);
    multiply_backward(dq, &W::query, input_, inputs.dx, inputs.add_to_dx);
    add_gradients(x, dq, gradients, &W::query, &W::query_bias);
    multiply_backward(dkv, &W::key_value, source_, inputs.dsource, inputs.add_to_dsource);
    add_gradients(source, dkv, gradients, &W::key_value, &W::key_value_bias);
  } else {
    multiply_backward(dq, &W::in_proj, input_, inputs.dx, inputs.add_to_dx);
    add_gradients(x, dq, gradients, &W::in_proj, &W::in_proj_bias);
  }
  if (!s.key_bias) clear(gradients.vector(&W::key_bias));
  if (!s.value_bias) clear(gradients.vector(&W::value_bias));
}

void MultiHeadAttention::check_inputs(View<const float, 2> x, View<const float, 2> source) const {
  check_shape("x", x.shape(), {x.extent(0), shape().C});
  if (shape().cross) {
    check_shape("source", source.shape(), {source.extent(0), shape().Cs});
  } else if (source.data() != nullptr) {
    throw Error({.what = "multi_head_attention: a source was given to self attention",
                 .where = "source",
                 .got = to_string(source.shape()),
                 .expected = "none",
                 .hint = "set source_width for cross attention"});
  }
}

void MultiHeadAttention::check_cross(const char* where) const {
  if (shape().cross) return;
  throw Error({.what = "multi_head_attention: self attention has no separate source",
               .where = where,
               .hint = "call project, or set source_width for cross attention"});
}

void MultiHeadAttention::check_pass(const Pass& pass) const {
  const auto& s = shape();
  const int64_t T = pass.q.extent(0), S = pass.k.extent(0);
  const char* hint = "project comes first, by the same layer";
  check_shape("q", pass.q.shape(), {T, s.learned(), s.D}, hint);
  check_shape("k", pass.k.shape(), {S, s.key_heads, s.D}, hint);
  check_shape("v", pass.v.shape(), {S, s.K, s.Dv}, hint);
  check_shape("z", pass.z.shape(), {T, s.H, s.Dv}, hint);
}

void MultiHeadAttention::check_gradients(const MultiHeadAttentionWeights* gradients) const {
  if (gradients == nullptr || gradients->shape() == shape()) return;
  const auto text = [](const MultiHeadAttentionShape& s) {
    return fmt::format("C {}, Cs {}, H {} ({} fixed), K {}, D {}, Dv {}, biases {} and {}", s.C,
                       s.Cs, s.H, s.fixed.size(), s.K, s.D, s.Dv, s.projection_bias, s.output_bias);
  };
  throw Error({.what = "multi_head_attention: the gradients are of another layer",
               .where = "gradients",
               .got = text(gradients->shape()),
               .expected = text(shape()),
               .hint = "make them by weights().zeros()"});
}

}  // namespace headwise
