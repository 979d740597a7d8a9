// The layers between attentions: linear, norm, embedding, feed-forward, with their weights.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/io/tensor_file.h"
#include "headwise/kernels/gemm.h"
#include "headwise/model/config.h"
#include "model/weight_reader.h"

namespace headwise {

/// All of a buffer; none if it is empty.
View<const float, 1> vector_of(const Buffer& buffer);

/// out = x Wᵀ + b
class Linear {
 public:
  struct Names {
    std::string weight{}, bias{};  // empty bias: there is none
  };

  Linear() = default;
  /// `transposed`: stored as [inputs, outputs].
  Linear(WeightReader& reader, const Names& names, int64_t outputs, int64_t inputs,
         bool transposed = false);
  Linear(PackedWeights weights, Buffer bias)
      : weights_(std::move(weights)), bias_(std::move(bias)) {}

  void operator()(View<const float, 2> x, View<float, 2> out, Epilogue epilogue = {}) const;
  int64_t outputs() const { return weights_.outputs(); }
  const PackedWeights& weights() const { return weights_; }
  View<const float, 1> bias() const { return vector_of(bias_); }

 private:
  PackedWeights weights_;
  Buffer bias_;
};

class NormLayer {
 public:
  NormLayer() = default;
  NormLayer(WeightReader& reader, const std::string& name, const ModelConfig& config,
            int64_t width);

  /// out may be x.
  void operator()(View<const float, 2> x, View<float, 2> out) const;
  /// Every head of every row by itself, in place.
  void per_head(View<float, 3> x) const;
  /// d [T, C], a gradient of the output, becomes that of the input x if the scale of every row were
  /// a constant. Without a norm nothing changes.
  void backward_frozen(View<const float, 2> x, View<float, 2> d) const;
  bool exists() const { return weight_.size() > 0; }

 private:
  NormKind kind_ = NormKind::layer;
  float epsilon_ = 0;
  Buffer weight_, bias_;
};

/// A table of rows, as a file stores them or computed.
class Embedding {
 public:
  Embedding() = default;
  Embedding(WeightReader& reader, const std::string& name, int64_t rows, int64_t width);
  /// A matrix that was taken already.
  Embedding(WeightReader& reader, const TensorInfo& matrix);
  Embedding(const Buffer& table, int64_t rows, int64_t width);

  /// out(i) = scale * table(index[i]), or added to what is there.
  void gather(std::span<const int32_t> index, float scale, bool add, View<float, 2> out) const;

  bool exists() const { return rows_ > 0; }
  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }
  const std::string& tensor() const { return tensor_; }  // its name; empty if it was computed

 private:
  std::string tensor_;
  Dtype dtype_ = Dtype::kF32;
  std::shared_ptr<const TensorBytes> table_;
  int64_t rows_ = 0, width_ = 0;
};

/// The sinusoids of Marian: sines in the first half, cosines in the second.
Embedding sinusoidal_positions(int64_t rows, int64_t width);

class FeedForward {
 public:
  struct Scratch {
    Buffer hidden, gate;
  };

  FeedForward() = default;
  FeedForward(Linear up, Linear gate, Linear down, Activation activation)
      : up_(std::move(up)),
        gate_(std::move(gate)),
        down_(std::move(down)),
        activation_(activation) {}

  void operator()(View<const float, 2> x, View<float, 2> out, const Epilogue& epilogue,
                  Scratch& scratch) const;

 private:
  Linear up_, gate_, down_;  // no gate_: not gated
  Activation activation_ = Activation::none;
};

}  // namespace headwise
