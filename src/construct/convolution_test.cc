// Convolutions as attention layers: equal to rounding, by how much not when attention is soft, and
// what fewer heads cannot do.
#include "headwise/construct/convolution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "headwise/core/error.h"
#include "headwise/core/random.h"

namespace headwise {
namespace {

std::vector<float> normal_values(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) value = random.normal();
  return values;
}

Convolution random_convolution(int64_t size, int64_t inputs, int64_t outputs) {
  return {.size = size,
          .inputs = inputs,
          .outputs = outputs,
          .weights = normal_values(size * size * inputs * outputs, 3)};
}

/// |got - expected| / |expected|
double relative_error(const std::vector<float>& got, const std::vector<double>& expected) {
  double error = 0, all = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    all += expected[i] * expected[i];
  }
  return std::sqrt(error / all);
}

TEST(Convolutions, AreSumsOverNeighbours) {
  // The neighbour above, and twice the one to the right.
  const Convolution c{.size = 3, .weights = {0, 1, 0, 0, 0, 2, 0, 0, 0}};
  const std::vector<float> image = {1, 2, 3, 4};
  EXPECT_EQ(convolve(c, image, {2, 2}), (std::vector<double>{4, 0, 1 + 8, 2}));
}

TEST(Convolutions, AreWhatKSquaredHeadsGive) {
  const ImageShape shape{9, 7};
  for (const int64_t size : {1, 3, 5}) {
    for (const auto& [inputs, outputs] : {std::pair(1, 1), std::pair(3, 8), std::pair(6, 2)}) {
      const Convolution c = random_convolution(size, inputs, outputs);
      const std::vector<float> image = normal_values(shape.height * shape.width * inputs, 4);
      const ConvolutionLayer layer(c, 128, size * size);
      EXPECT_EQ(layer.attention().shape().H, size * size);
      const std::vector<float> got = layer.forward(image, shape);
      const std::vector<double> expected = convolve(c, image, shape);
      // Every product, and every sum of them, is rounded once.
      Convolution sizes = c;
      for (float& weight : sizes.weights) weight = std::abs(weight);
      std::vector<float> absolute = image;
      for (float& value : absolute) value = std::abs(value);
      const std::vector<double> bound = convolve(sizes, absolute, shape);
      const double rounding = static_cast<double>(size * size * inputs + 1) * 0x1p-24;
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_LE(std::abs(got[i] - expected[i]), rounding * bound[i]);
      }
    }
  }
}

/// The nearest wrong pixels are four at distance 1, with weights exp(-sharpness).
TEST(Convolutions, NeedSharpAttention) {
  const ImageShape shape{8, 8};
  const Convolution c = random_convolution(3, 2, 2);
  const std::vector<float> image = normal_values(8 * 8 * 2, 5);
  const std::vector<double> expected = convolve(c, image, shape);
  double before = 10;
  for (const float sharpness : {2.f, 4.f, 8.f, 12.f}) {
    const double error =
        relative_error(ConvolutionLayer(c, sharpness, 9).forward(image, shape), expected);
    EXPECT_GT(error, std::exp(-sharpness));
    EXPECT_LT(error, 10 * std::exp(-sharpness));
    EXPECT_LT(error, before);
    before = error;
  }
}

TEST(Convolutions, NeedAsManyHeadsAsTheirRank) {
  const ImageShape shape{16, 16};
  const Convolution c = random_convolution(3, 4, 4);
  const std::vector<float> image = normal_values(16 * 16 * 4, 6);
  const std::vector<double> expected = convolve(c, image, shape);
  const std::vector<double> spectrum = convolution_spectrum(c);
  ASSERT_EQ(spectrum.size(), 9u);
  double all = 0, left = 0;
  for (const double value : spectrum) all += value * value;
  for (int64_t heads = 8; heads >= 1; --heads) {
    left += spectrum[heads] * spectrum[heads];
    const double error =
        relative_error(ConvolutionLayer(c, 128, heads).forward(image, shape), expected);
    EXPECT_GT(error, 0.8 * std::sqrt(left / all)) << heads;  // of this image, not of all
    EXPECT_GT(error, 0.05) << heads;
  }
  // One channel in and out: a matrix of one column.
  EXPECT_EQ(convolution_spectrum(random_convolution(3, 1, 1)).size(), 1u);
}

TEST(Convolutions, RefuseWhatDoesNotFit) {
  const Convolution c = random_convolution(3, 1, 1);
  EXPECT_THROW(ConvolutionLayer(c, 8, 10), Error);
  EXPECT_THROW(ConvolutionLayer(c, 8, 0), Error);
  EXPECT_THROW(convolve({.size = 2, .weights = {1, 2, 3, 4}}, {}, {0, 0}), Error);
  EXPECT_THROW(convolve(c, normal_values(3, 1), {2, 2}), Error);
  EXPECT_THROW((void)ConvolutionLayer(c, 8, 9).forward(normal_values(3, 1), {2, 2}), Error);
}

}  // namespace
}  // namespace headwise
