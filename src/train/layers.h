// The layers between attentions in training: linear, norm, embedding, feed-forward, each with its
// backward pass. Gradients of weights are added to.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/kernels/dropout.h"
#include "headwise/kernels/gemm.h"
#include "headwise/model/config.h"
#include "train/weights.h"

namespace headwise {

/// Rows of a pass, in memory that the next pass uses again.
class Rows {
 public:
  View<float, 2> shaped(int64_t rows, int64_t columns) {
    return view_ = {buffer_.at_least(rows * columns), {rows, columns}};
  }
  View<float, 2> like(View<const float, 2> other) {
    return shaped(other.extent(0), other.extent(1));
  }
  View<float, 2> view() const { return view_; }

 private:
  Buffer buffer_;
  View<float, 2> view_;
};

/// Where a gradient for the input of a layer goes.
struct InputGradient {
  View<float, 2> dx{};
  bool add = false;  // instead of overwriting
};

/// Names of a layer: in the list of parameters, and in a checkpoint.
struct LayerName {
  std::string parameter{}, tensor{};
};

class TrainedLinear {
 public:
  struct Shape {
    int64_t outputs = 0, inputs = 0;
    bool bias = true;
    bool transposed = false;  // stored as [inputs, outputs]
  };

  TrainedLinear() = default;
  TrainedLinear(ParameterList& declare, const LayerName& name, const Shape& shape,
                const Init& init);

  bool exists() const { return outputs_ > 0; }
  bool requires_grad() const { return weight_.requires_grad() || bias_.requires_grad(); }
  int64_t outputs() const { return outputs_; }

  void forward(View<const float, 2> x, View<float, 2> out, Epilogue epilogue = {}) const;
  void backward(View<const float, 2> x, View<const float, 2> dy, const InputGradient& to) const;

 private:
  int64_t outputs_ = 0;
  Weights weight_, bias_;
};

class TrainedNorm {
 public:
  TrainedNorm() = default;
  TrainedNorm(ParameterList& declare, const LayerName& name, const ModelConfig& config,
              int64_t width);

  bool exists() const { return weight_.exists(); }
  bool requires_grad() const { return weight_.requires_grad() || bias_.requires_grad(); }
  void forward(View<const float, 2> x, View<float, 2> out) const;
  /// dx may be dy.
  void backward(View<const float, 2> x, View<const float, 2> dy, const InputGradient& to) const;

  /// Every head of every row by itself, in place; x is what went in.
  void forward(View<float, 3> heads) const;
  void backward(View<const float, 3> x, View<float, 3> dheads) const;

 private:
  NormKind kind_ = NormKind::layer;
  float epsilon_ = 0;
  Weights weight_, bias_;
};

/// A table of rows, learned or fixed.
class TrainedEmbedding {
 public:
  TrainedEmbedding() = default;
  /// `unlearned`: a row that look-ups do not train, that of padding; -1: none.
  TrainedEmbedding(ParameterList& declare, const LayerName& name, int64_t rows, int64_t width,
                   const Init& init, int64_t unlearned);
  /// A table that is not trained.
  TrainedEmbedding(Weights fixed, int64_t rows) : rows_(rows), table_(std::move(fixed)) {}

  bool exists() const { return rows_ > 0; }
  bool requires_grad() const { return table_.requires_grad(); }
  const std::string& tensor() const { return tensor_; }  // its name in a checkpoint
  View<float, 2> table() const { return table_.matrix(rows_); }
  MatrixGradient take_gradient() const { return table_.take_gradient(rows_); }

  void forward(std::span<const int32_t> rows, float scale, bool add, View<float, 2> out) const;
  void backward(View<const float, 2> dout, std::span<const int32_t> rows, float scale) const;

 private:
  int64_t rows_ = 0, unlearned_ = -1;
  std::string tensor_;
  Weights table_;
};

class TrainedFeedForward {
 public:
  struct Tape {
    Rows up, gate, activated;
  };
  struct Scratch {
    Rows dactivated, dgate;
  };

  TrainedFeedForward() = default;
  /// `gate` may not exist.
  TrainedFeedForward(TrainedLinear up, TrainedLinear gate, TrainedLinear down,
                     Activation activation);

  bool requires_grad() const {
    return up_.requires_grad() || gate_.requires_grad() || down_.requires_grad();
  }

  /// `inside`: of the activated values.
  void forward(View<const float, 2> x, const Dropout& inside, View<float, 2> out,
               const Epilogue& epilogue, Tape& tape) const;
  /// dx may be dy.
  void backward(View<const float, 2> x, const Dropout& inside, const Tape& tape,
                View<const float, 2> dy, const InputGradient& to, Scratch& scratch) const;

 private:
  /// Whether the slope of the activation follows from what it gave: nothing else is kept then.
  bool invertible() const;

  TrainedLinear up_, gate_, down_;
  Activation activation_ = Activation::none;
};

}  // namespace headwise
