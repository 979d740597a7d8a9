// Queries and keys of positions, values and outputs of content.
#include "headwise/construct/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/linear_algebra.h"
#include "headwise/core/error.h"

namespace headwise {
namespace {

constexpr int64_t kPositionColumns = 3;  // y, x, y² + x²

void check(const Convolution& c) {
  if (c.size >= 1 && c.size % 2 == 1 && c.inputs >= 1 && c.outputs >= 1 &&
      std::ssize(c.weights) == c.size * c.size * c.outputs * c.inputs) {
    return;
  }
  throw Error({.what = "convolution: the weights are not [K, K, outputs, inputs] with an odd K",
               .got = fmt::format("{} weights, K {}, {} outputs, {} inputs", c.weights.size(),
                                  c.size, c.outputs, c.inputs)});
}

void check_image(std::span<const float> image, const ImageShape& shape, int64_t channels) {
  if (std::ssize(image) == shape.height * shape.width * channels) return;
  throw Error({.what = "convolution: the image has another size",
               .got = fmt::format("{} values", image.size()),
               .expected = fmt::format("{} x {} x {}", shape.height, shape.width, channels)});
}

std::span<const float> weights_of(const Convolution& c, int64_t neighbour) {
  const int64_t size = c.outputs * c.inputs;
  return std::span(c.weights).subspan(neighbour * size, size);
}

/// The neighbours whose weights have the largest norm.
std::vector<int64_t> strongest(const Convolution& c, int64_t count) {
  std::vector<int64_t> order(c.size * c.size);
  std::iota(order.begin(), order.end(), int64_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](int64_t neighbour) {
    double squares = 0;
    for (const float weight : weights_of(c, neighbour)) squares += double{weight} * weight;
    return squares;
  });
  order.resize(count);
  return order;
}

MultiHeadAttention layer_of(const Convolution& c, float sharpness, int64_t heads) {
  check(c);
  if (heads < 1 || heads > c.size * c.size) {
    throw Error({.what = "convolution: there are not as many neighbours as heads",
                 .got = fmt::format("{} heads", heads),
                 .expected = fmt::format("1 to {}", c.size * c.size)});
  }
  MultiHeadAttentionWeights weights({.width = std::max(c.inputs + kPositionColumns, c.outputs),
                                     .heads = heads,
                                     .head_dim = kPositionColumns,
                                     .value_dim = c.inputs});
  const std::vector<int64_t> neighbours = strongest(c, heads);
  const int64_t y = c.inputs, x = y + 1, squares = x + 1;  // columns
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t row = h * kPositionColumns, value = h * c.inputs;
    const int64_t shift_y = neighbours[h] / c.size - c.size / 2;
    const int64_t shift_x = neighbours[h] % c.size - c.size / 2;
    // -s |k - (q + shift)|² without what all keys have in common: 2 s (q + shift) k - s |k|².
    weights.query()(row, y) = weights.query()(row + 1, x) = 2 * sharpness;
    weights.query_bias()(row) = 2 * sharpness * static_cast<float>(shift_y);
    weights.query_bias()(row + 1) = 2 * sharpness * static_cast<float>(shift_x);
    weights.query_bias()(row + 2) = -sharpness;
    weights.key()(row, y) = weights.key()(row + 1, x) = weights.key()(row + 2, squares) = 1;
    const std::span<const float> of_neighbour = weights_of(c, neighbours[h]);
    for (int64_t in = 0; in < c.inputs; ++in) {
      weights.value()(value + in, in) = 1;
      for (int64_t out = 0; out < c.outputs; ++out) {
        weights.output()(out, value + in) = of_neighbour[out * c.inputs + in];
      }
    }
  }
  return MultiHeadAttention(std::move(weights));
}

}  // namespace

std::vector<double> convolve(const Convolution& c, std::span<const float> image,
                             const ImageShape& shape) {
  check(c);
  check_image(image, shape, c.inputs);
  std::vector<double> result(shape.height * shape.width * c.outputs);
  const int64_t reach = c.size / 2;
  for (int64_t y = 0; y < shape.height; ++y) {
    for (int64_t x = 0; x < shape.width; ++x) {
      for (int64_t neighbour = 0; neighbour < c.size * c.size; ++neighbour) {
        const int64_t from_y = y + neighbour / c.size - reach;
        const int64_t from_x = x + neighbour % c.size - reach;
        if (from_y < 0 || from_y >= shape.height || from_x < 0 || from_x >= shape.width) continue;
        const float* const from = &image[(from_y * shape.width + from_x) * c.inputs];
        const std::span<const float> weights = weights_of(c, neighbour);
        double* const to = &result[(y * shape.width + x) * c.outputs];
        for (int64_t out = 0; out < c.outputs; ++out) {
          for (int64_t in = 0; in < c.inputs; ++in) {
            to[out] += double{weights[out * c.inputs + in]} * from[in];
          }
        }
      }
    }
  }
  return result;
}

std::vector<double> convolution_spectrum(const Convolution& c) {
  check(c);
  DoubleMatrix matrix(c.size * c.size, c.outputs * c.inputs);
  std::ranges::copy(c.weights, matrix.values.begin());
  return singular_values(matrix);
}

ConvolutionLayer::ConvolutionLayer(const Convolution& convolution, float sharpness, int64_t heads)
    : size_(convolution.size),
      inputs_(convolution.inputs),
      outputs_(convolution.outputs),
      attention_(layer_of(convolution, sharpness, heads)) {}

std::vector<float> ConvolutionLayer::forward(std::span<const float> image,
                                             const ImageShape& shape) const {
  check_image(image, shape, inputs_);
  const int64_t C = attention_.shape().C, reach = size_ / 2;
  const int64_t width = shape.width + 2 * reach, T = (shape.height + 2 * reach) * width;
  Buffer rows = Buffer::zeros(T * C), out(T * C);
  const View<float, 2> x = rows.view({T, C});
  for (int64_t row = 0; row < T; ++row) {
    const int64_t at_y = row / width - reach, at_x = row % width - reach;
    x(row, inputs_) = static_cast<float>(at_y);
    x(row, inputs_ + 1) = static_cast<float>(at_x);
    x(row, inputs_ + 2) = static_cast<float>(at_y * at_y + at_x * at_x);
    if (at_y < 0 || at_y >= shape.height || at_x < 0 || at_x >= shape.width) continue;
    std::copy_n(&image[(at_y * shape.width + at_x) * inputs_], inputs_, &x(row, 0));
  }
  const int64_t offsets[] = {0, T};
  MultiHeadAttention::Pass pass;
  const View<float, 2> y = out.view({T, C});
  attention_.forward(x, {}, {.q_offsets = offsets, .scale = 1}, pass, y);
  std::vector<float> result;
  for (int64_t row = 0; row < shape.height * shape.width; ++row) {
    const int64_t padded = (row / shape.width + reach) * width + row % shape.width + reach;
    result.insert(result.end(), &y(padded, 0), &y(padded, 0) + outputs_);
  }
  return result;
}

}  // namespace headwise
