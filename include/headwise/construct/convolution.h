// A K × K convolution as the weights of one attention layer (Cordonnier et al. 2020): every head
// looks at one neighbour of a pixel, by scores -sharpness |key - (query + shift)|².
//
// These scores are a product of queries and keys of width 3 if the rows hold the position beside
// the content: |key|² and both coordinates. Attention cannot look at nothing, so pixels outside the
// image are rows of zeros around it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headwise/model/multi_head_attention.h"

namespace headwise {

struct Convolution {
  int64_t size = 3;                 // K, an odd number
  int64_t inputs = 1, outputs = 1;  // channels
  std::vector<float> weights{};     // [K, K, outputs, inputs]
};

struct ImageShape {
  int64_t height = 0, width = 0;
};

/// image [height * width, inputs], row by row, and zeros around it; [height * width, outputs].
std::vector<double> convolve(const Convolution& convolution, std::span<const float> image,
                             const ImageShape& shape);

/// The rank of the weights as a matrix [K², outputs * inputs], by its singular values. A layer
/// whose values depend on the content of a pixel alone needs that many heads, whatever its
/// attention: the relative error of fewer is at least that of the best matrix of that rank.
std::vector<double> convolution_spectrum(const Convolution& convolution);

/// Heads for the `heads` neighbours with the largest weights; K² are the convolution.
class ConvolutionLayer {
 public:
  ConvolutionLayer(const Convolution& convolution, float sharpness, int64_t heads);

  std::vector<float> forward(std::span<const float> image, const ImageShape& shape) const;
  const MultiHeadAttention& attention() const { return attention_; }

 private:
  int64_t size_, inputs_, outputs_;
  MultiHeadAttention attention_;
};

}  // namespace headwise
