// What the layers between attentions compute, and their gradients.
#include "model/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/core/shape.h"
#include "headwise/kernels/activation.h"
#include "headwise/kernels/embedding.h"
#include "headwise/kernels/glu.h"
#include "headwise/kernels/norm.h"
#include "headwise/kernels/unpack.h"
#include "io/to_float.h"

namespace headwise {
namespace {

/// Rows of a feed-forward layer that are in flight at once: their hidden values stay in the cache.
constexpr int64_t kFeedForwardRows = 768;

/// Rows of an embedding that a thread reads at once.
constexpr int64_t kGatheredRows = 64;

void copy_rows(View<const float, 2> from, View<float, 2> to) {
  if (from.data() == to.data()) return;
  for (int64_t row = 0; row < from.extent(0); ++row) {
    std::copy_n(&from(row, 0), from.extent(1), &to(row, 0));
  }
}

void add_rows(View<const float, 2> from, View<float, 2> to) {
  for (int64_t row = 0; row < from.extent(0); ++row) {
    std::transform(&from(row, 0), &from(row, 0) + from.extent(1), &to(row, 0), &to(row, 0),
                   std::plus<>());
  }
}

}  // namespace

Linear::Linear(WeightSource& source, const LayerName& name, const Shape& shape)
    : weight_(source.matrix(name.weight(), shape.outputs, shape.inputs,
                            {.transposed = shape.transposed})) {
  if (shape.bias) bias_ = source.vector(name.bias(), shape.outputs);
}

void Linear::forward(View<const float, 2> x, View<float, 2> out, Epilogue epilogue) const {
  epilogue.bias = bias_.vector();
  weight_.multiply(x, out, epilogue);
}

void Linear::backward(View<const float, 2> x, View<const float, 2> dy,
                      const InputGradient& to) const {
  // Before dx is written, which may lie where dy does.
  weight_.add_product(dy, x);
  if (bias_.requires_grad()) sum_rows(dy, bias_.dvector());
  weight_.multiply_backward(dy, to);
}

Norm::Norm(WeightSource& source, const LayerName& name, const ModelConfig& config, int64_t width)
    : kind_(config.norm), epsilon_(config.epsilon) {
  if (kind_ == NormKind::none) return;
  weight_ = source.vector(name.weight(), width);
  if (kind_ == NormKind::layer) bias_ = source.vector(name.bias(), width);
}

void Norm::forward(View<const float, 2> x, View<float, 2> out) const {
  switch (kind_) {
    case NormKind::none:
      return copy_rows(x, out);
    case NormKind::layer:
      return layer_norm(x, weight_.vector(), bias_.vector(), epsilon_, out);
    case NormKind::rms:
      return rms_norm(x, weight_.vector(), epsilon_, out);
  }
}

void Norm::backward(View<const float, 2> x, View<const float, 2> dy,
                    const InputGradient& to) const {
  const NormGradients gradients{
      .dx = to.dx, .add_to_dx = to.add, .dweight = weight_.dvector(), .dbias = bias_.dvector()};
  switch (kind_) {
    case NormKind::none:
      return to.add ? add_rows(dy, to.dx) : copy_rows(dy, to.dx);
    case NormKind::layer:
      return layer_norm_backward(x, weight_.vector(), epsilon_, dy, gradients);
    case NormKind::rms:
      return rms_norm_backward(x, weight_.vector(), epsilon_, dy, gradients);
  }
}

void Norm::forward(View<float, 3> heads) const { rms_norm(heads, weight_.vector(), epsilon_); }

void Norm::backward(View<const float, 3> x, View<float, 3> dheads) const {
  rms_norm_backward(x, weight_.vector(), epsilon_, dheads, weight_.dvector());
}

void Norm::backward_frozen(View<const float, 2> x, View<float, 2> d) const {
  if (!exists()) return;
  const int64_t C = x.extent(1);
  const auto width = static_cast<double>(C);
  parallel_panels(x.extent(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      double mean = 0, squares = 0, mean_d = 0;
      for (int64_t c = 0; kind_ == NormKind::layer && c < C; ++c) mean += x(row, c) / width;
      for (int64_t c = 0; c < C; ++c) {
        const double centred = x(row, c) - mean;
        squares += centred * centred / width;
        d(row, c) *= weight_.values()[c];
        mean_d += d(row, c) / width;
      }
      if (kind_ == NormKind::rms) mean_d = 0;
      const double scale = 1 / std::sqrt(squares + epsilon_);
      for (int64_t c = 0; c < C; ++c) {
        d(row, c) = static_cast<float>((d(row, c) - mean_d) * scale);
      }
    }
  });
}

Embedding::Embedding(WeightSource& source, const LayerName& name, int64_t rows, int64_t width,
                     int64_t padding)
    : rows_(rows),
      width_(width),
      padding_(padding),
      table_(std::make_shared<Table>(source.table(name, rows, width))) {}

Embedding::Embedding(Buffer table, int64_t rows, int64_t width)
    : rows_(rows),
      width_(width),
      table_(std::make_shared<Table>(
          Table{.weights = std::make_shared<const Weights>(std::move(table), rows)})) {}

void Embedding::gather(std::span<const int32_t> index, float scale, bool add,
                       View<float, 2> out) const {
  const Table& table = *table_;
  const bool packed = table.weights != nullptr && table.weights->packed().outputs() > 0;
  if (table.weights != nullptr && !packed) {
    return embedding(weights().matrix(), index, scale, add, out);
  }
  const std::span<const std::byte> stored = table.stored.span();
  if (!packed && table.dtype == Dtype::kF32) {
    const auto* const rows = reinterpret_cast<const float*>(stored.data());
    return embedding(View<const float, 2>(rows, {rows_, width_}), index, scale, add, out);
  }
  for (const int32_t row : index) {
    if (row >= 0 && row < rows_) continue;
    throw Error({.what = "embedding: the table has no such row",
                 .got = fmt::format("{}", row),
                 .expected = fmt::format("0 to {}", rows_ - 1)});
  }
  const size_t bytes = width_ * byte_size(table.dtype);
  parallel_panels(std::ssize(index), kGatheredRows, [&](int64_t begin, int64_t end) {
    const Buffer row(width_);
    const View<float, 2> one = row.view({1, width_});
    const int32_t first = 0;
    for (int64_t i = begin; i < end; ++i) {
      if (packed) {
        unpack(table.weights->packed(), index[i], one);
      } else {
        to_float(table.dtype, stored.subspan(index[i] * bytes, bytes), row.span());
      }
      embedding(one, {&first, 1}, scale, add, out.rows(i, i + 1));
    }
  });
}

void Embedding::backward(View<const float, 2> dout, std::span<const int32_t> index,
                         float scale) const {
  if (!requires_grad()) return;
  const View<float, 2> sums = weights().take_gradient().sums;
  const bool has_padding = padding_ >= 0 && padding_ < rows_;
  const std::span<float> row =
      has_padding ? std::span(&sums(padding_, 0), width_) : std::span<float>();
  const std::vector<float> before(row.begin(), row.end());
  embedding_backward(dout, index, scale, sums);
  std::ranges::copy(before, row.begin());
}

Embedding sinusoidal_positions(int64_t rows, int64_t width) {
  Buffer table(checked_mul(rows, width));
  const int64_t sines = (width + 1) / 2;
  for (int64_t position = 0; position < rows; ++position) {
    for (int64_t c = 0; c < width; ++c) {
      const int64_t pair = c < sines ? c : c - sines;
      const double angle =
          static_cast<double>(position) /
          std::pow(10000., 2. * static_cast<double>(pair) / static_cast<double>(width));
      table[position * width + c] =
          static_cast<float>(c < sines ? std::sin(angle) : std::cos(angle));
    }
  }
  return {std::move(table), rows, width};
}

void FeedForward::forward(View<const float, 2> x, View<float, 2> out, const Epilogue& epilogue,
                          Scratch& scratch) const {
  const int64_t F = up_.outputs();
  for (int64_t begin = 0; begin < x.extent(0); begin += kFeedForwardRows) {
    const int64_t end = std::min(begin + kFeedForwardRows, x.extent(0));
    const View<float, 2> hidden = scratch.hidden.shaped(end - begin, F);
    up_.forward(x.rows(begin, end), hidden,
                {.activation = gate_.exists() ? Activation::none : activation_});
    if (gate_.exists()) {
      const View<float, 2> gates = scratch.gate.shaped(end - begin, F);
      gate_.forward(x.rows(begin, end), gates);
      glu(gates, hidden, activation_, hidden);
    }
    Epilogue part = epilogue;
    if (part.residual.data() != nullptr) part.residual = part.residual.rows(begin, end);
    down_.forward(hidden, out.rows(begin, end), part);
  }
}

bool FeedForward::invertible() const {
  return !gate_.exists() && (activation_ == Activation::relu || activation_ == Activation::none);
}

void FeedForward::forward(View<const float, 2> x, const Dropout& inside, View<float, 2> out,
                          const Epilogue& epilogue, Tape& tape) const {
  const int64_t T = x.extent(0), F = up_.outputs();
  const View<float, 2> activated = tape.activated.shaped(T, F);
  if (invertible()) {
    up_.forward(x, activated, {.activation = activation_});
  } else {
    up_.forward(x, tape.up.shaped(T, F));
    if (gate_.exists()) {
      gate_.forward(x, tape.gate.shaped(T, F));
      glu(tape.gate.view(), tape.up.view(), activation_, activated);
    } else {
      activate(tape.up.view(), activation_, activated);
    }
  }
  if (inside.p > 0) dropout(activated, inside, activated);
  down_.forward(activated, out, epilogue);
}

void FeedForward::backward(View<const float, 2> x, const Dropout& inside, const Tape& tape,
                           View<const float, 2> dy, const InputGradient& to,
                           Scratch& scratch) const {
  const View<float, 2> activated = tape.activated.view();
  const View<float, 2> d = scratch.dactivated.like(activated);
  down_.backward(activated, dy, {.dx = d});
  if (inside.p > 0) dropout(d, inside, d);
  if (gate_.exists()) {
    const View<float, 2> dgate = scratch.dgate.like(activated);
    glu_backward(tape.gate.view(), tape.up.view(), activation_, d, dgate, d);
    gate_.backward(x, dgate, to);
    up_.backward(x, d, {.dx = to.dx, .add = true});
    return;
  }
  activate_backward(invertible() ? activated : tape.up.view(), activation_, d, d);
  up_.backward(x, d, to);
}

}  // namespace headwise
