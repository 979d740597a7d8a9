// The layers between attentions: linear, norm, embedding, feed-forward. Each runs and is trained;
// gradients of weights are added to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "headwise/core/buffer.h"
#include "headwise/core/view.h"
#include "headwise/kernels/dropout.h"
#include "headwise/kernels/gemm.h"
#include "headwise/model/config.h"
#include "model/rows.h"
#include "model/weight_source.h"
#include "model/weights.h"

namespace headwise {

/// out = x Wᵀ + b
class Linear {
 public:
  struct Shape {
    int64_t outputs = 0, inputs = 0;
    bool bias = true;
    bool transposed = false;  // stored as [inputs, outputs]
  };

  Linear() = default;
  Linear(WeightSource& source, const LayerName& name, const Shape& shape);
  /// The bias may not exist.
  Linear(Weights weight, Weights bias) : weight_(std::move(weight)), bias_(std::move(bias)) {}

  bool exists() const { return weight_.exists(); }
  bool requires_grad() const { return weight_.requires_grad() || bias_.requires_grad(); }
  int64_t outputs() const { return weight_.rows(); }
  const Weights& weight() const { return weight_; }
  const Weights& bias() const { return bias_; }

  void forward(View<const float, 2> x, View<float, 2> out, Epilogue epilogue = {}) const;
  /// dx may lie where dy does.
  void backward(View<const float, 2> x, View<const float, 2> dy, const InputGradient& to) const;

 private:
  Weights weight_, bias_;
};

/// Without a norm (NormKind::none) rows pass unchanged.
class Norm {
 public:
  Norm() = default;
  Norm(WeightSource& source, const LayerName& name, const ModelConfig& config, int64_t width);

  bool exists() const { return weight_.exists(); }
  bool requires_grad() const { return weight_.requires_grad() || bias_.requires_grad(); }

  /// out may be x.
  void forward(View<const float, 2> x, View<float, 2> out) const;
  /// dx may be dy.
  void backward(View<const float, 2> x, View<const float, 2> dy, const InputGradient& to) const;

  /// Every head of every row by itself, in place; x is what went in.
  void forward(View<float, 3> heads) const;
  void backward(View<const float, 3> x, View<float, 3> dheads) const;

  /// d [T, C], a gradient of the output, becomes that of the input x if the scale of every row were
  /// a constant. Without a norm nothing changes.
  void backward_frozen(View<const float, 2> x, View<float, 2> d) const;

 private:
  NormKind kind_ = NormKind::layer;
  float epsilon_ = 0;
  Weights weight_, bias_;
};

/// A table of rows, learned or computed. Copies share it.
class Embedding {
 public:
  Embedding() = default;
  /// `padding`: a row that gathers do not train; -1: none.
  Embedding(WeightSource& source, const LayerName& name, int64_t rows, int64_t width,
            int64_t padding = -1);
  /// A computed table, which is not trained.
  Embedding(Buffer table, int64_t rows, int64_t width);

  bool exists() const { return rows_ > 0; }
  bool requires_grad() const {
    return exists() && table_->weights != nullptr && table_->weights->requires_grad();
  }
  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }
  const std::string& tensor() const { return table_->tensor; }

  /// out(i) = scale * table(index[i]), or added to what is there.
  void gather(std::span<const int32_t> index, float scale, bool add, View<float, 2> out) const;
  void backward(View<const float, 2> dout, std::span<const int32_t> index, float scale) const;

  /// The plain weights of a table that is trained or was computed.
  const Weights& weights() const { return *table_->weights; }
  Table& table() const { return *table_; }

 private:
  int64_t rows_ = 0, width_ = 0, padding_ = -1;
  std::shared_ptr<Table> table_;
};

/// The sinusoids of Marian: sines in the first half, cosines in the second.
Embedding sinusoidal_positions(int64_t rows, int64_t width);

class FeedForward {
 public:
  /// What backward needs of a pass.
  struct Tape {
    Rows up, gate, activated;
  };
  struct Scratch {
    Rows hidden, gate;
    Rows dactivated, dgate;
  };

  FeedForward() = default;
  /// `gate` may not exist.
  FeedForward(Linear up, Linear gate, Linear down, Activation activation)
      : up_(std::move(up)),
        gate_(std::move(gate)),
        down_(std::move(down)),
        activation_(activation) {}

  bool requires_grad() const {
    return up_.requires_grad() || gate_.requires_grad() || down_.requires_grad();
  }

  /// A part of the rows after the other, so that their hidden values stay in the cache.
  void forward(View<const float, 2> x, View<float, 2> out, const Epilogue& epilogue,
               Scratch& scratch) const;
  /// All rows at once, for backward. `inside`: of the activated values.
  void forward(View<const float, 2> x, const Dropout& inside, View<float, 2> out,
               const Epilogue& epilogue, Tape& tape) const;
  /// dx may be dy.
  void backward(View<const float, 2> x, const Dropout& inside, const Tape& tape,
                View<const float, 2> dy, const InputGradient& to, Scratch& scratch) const;

 private:
  /// Whether the slope of the activation follows from what it gave: nothing else is kept then.
  bool invertible() const;

  Linear up_, gate_, down_;
  Activation activation_ = Activation::none;
};

}  // namespace headwise
