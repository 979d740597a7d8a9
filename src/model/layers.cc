// What the layers between attentions compute.
#include "model/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/core/shape.h"
#include "headwise/kernels/embedding.h"
#include "headwise/kernels/glu.h"
#include "headwise/kernels/norm.h"
#include "io/to_float.h"

namespace headwise {
namespace {

/// Rows of a feed-forward layer that are in flight at once: their hidden values stay in the cache.
constexpr int64_t kFeedForwardRows = 768;

}  // namespace

View<const float, 1> vector_of(const Buffer& buffer) {
  return buffer.size() == 0 ? View<const float, 1>() : buffer.view({buffer.size()});
}

Linear::Linear(WeightReader& reader, const Names& names, int64_t outputs, int64_t inputs,
               bool transposed) {
  const TensorInfo& tensor = transposed ? reader.take(names.weight, {inputs, outputs})
                                        : reader.take(names.weight, {outputs, inputs});
  weights_ = reader.packed(tensor, transposed);
  if (!names.bias.empty()) bias_ = reader.vector(names.bias, outputs);
}

void Linear::operator()(View<const float, 2> x, View<float, 2> out, Epilogue epilogue) const {
  epilogue.bias = bias();
  linear(x, weights_, out, epilogue);
}

NormLayer::NormLayer(WeightReader& reader, const std::string& name, const ModelConfig& config,
                     int64_t width)
    : kind_(config.norm),
      epsilon_(config.epsilon),
      weight_(reader.vector(name + ".weight", width)) {
  if (kind_ == NormKind::layer) bias_ = reader.vector(name + ".bias", width);
}

void NormLayer::operator()(View<const float, 2> x, View<float, 2> out) const {
  if (kind_ == NormKind::rms) {
    rms_norm(x, vector_of(weight_), epsilon_, out);
  } else {
    layer_norm(x, vector_of(weight_), vector_of(bias_), epsilon_, out);
  }
}

void NormLayer::backward_frozen(View<const float, 2> x, View<float, 2> d) const {
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
        d(row, c) *= weight_[c];
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

void NormLayer::per_head(View<float, 3> x) const { rms_norm(x, vector_of(weight_), epsilon_); }

Embedding::Embedding(WeightReader& reader, const std::string& name, int64_t rows, int64_t width)
    : Embedding(reader, reader.take(name, {rows, width})) {}

Embedding::Embedding(WeightReader& reader, const TensorInfo& matrix)
    : tensor_(matrix.name),
      dtype_(matrix.dtype),
      table_(reader.table(matrix)),
      rows_(matrix.shape[0]),
      width_(matrix.shape[1]) {}

Embedding::Embedding(const Buffer& table, int64_t rows, int64_t width)
    : rows_(rows), width_(width) {
  TensorBytes bytes(rows * width * static_cast<int64_t>(sizeof(float)));
  std::ranges::copy(std::as_bytes(table.span()), bytes.data());
  table_ = std::make_shared<const TensorBytes>(std::move(bytes));
}

void Embedding::gather(std::span<const int32_t> index, float scale, bool add,
                       View<float, 2> out) const {
  if (dtype_ == Dtype::kF32) {
    const auto* const table = reinterpret_cast<const float*>(table_->data());
    return headwise::embedding(View<const float, 2>(table, {rows_, width_}), index, scale, add,
                               out);
  }
  const size_t bytes = width_ * byte_size(dtype_);
  Buffer row(width_);
  const int32_t first = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    if (index[i] < 0 || index[i] >= rows_) {
      throw Error({.what = "embedding: the table has no such row",
                   .got = fmt::format("{}", index[i]),
                   .expected = fmt::format("0 to {}", rows_ - 1)});
    }
    const std::span<const std::byte> stored = table_->span();
    to_float(dtype_, stored.subspan(index[i] * bytes, bytes), row.span());
    headwise::embedding(row.view({1, width_}), {&first, 1}, scale, add, out.rows(i, i + 1));
  }
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
  return {table, rows, width};
}

void FeedForward::operator()(View<const float, 2> x, View<float, 2> out, const Epilogue& epilogue,
                             Scratch& scratch) const {
  const bool has_gate = gate_.outputs() > 0;
  const int64_t F = up_.outputs(), rows = std::min(x.extent(0), kFeedForwardRows);
  float* const up_room = scratch.hidden.at_least(checked_mul(rows, F));
  float* const gate_room = has_gate ? scratch.gate.at_least(checked_mul(rows, F)) : nullptr;
  for (int64_t begin = 0; begin < x.extent(0); begin += kFeedForwardRows) {
    const int64_t end = std::min(begin + kFeedForwardRows, x.extent(0));
    const View<float, 2> hidden(up_room, {end - begin, F});
    up_(x.rows(begin, end), hidden, {.activation = has_gate ? Activation::none : activation_});
    if (has_gate) {
      const View<float, 2> gates(gate_room, {end - begin, F});
      gate_(x.rows(begin, end), gates);
      glu(gates, hidden, activation_, hidden);
    }
    Epilogue part = epilogue;
    if (part.residual.data() != nullptr) part.residual = part.residual.rows(begin, end);
    down_(hidden, out.rows(begin, end), part);
  }
}

}  // namespace headwise
