// Forward and backward of the layers between attentions.
#include "train/layers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "headwise/kernels/activation.h"
#include "headwise/kernels/embedding.h"
#include "headwise/kernels/glu.h"
#include "headwise/kernels/norm.h"

namespace headwise {

TrainedLinear::TrainedLinear(ParameterList& declare, const LayerName& name, const Shape& shape,
                             const Init& init)
    : outputs_(shape.outputs),
      weight_(declare.matrix(name.parameter + ".weight", name.tensor + ".weight", shape.outputs,
                             shape.inputs, init, {.transposed = shape.transposed})) {
  if (!shape.bias) return;
  bias_ =
      declare.vector(name.parameter + ".bias", name.tensor + ".bias", shape.outputs, Init::zeros());
}

void TrainedLinear::forward(View<const float, 2> x, View<float, 2> out, Epilogue epilogue) const {
  epilogue.bias = bias_.vector();
  gemm(x, transposed<const float>(weight_.matrix(outputs_)), out, epilogue);
}

void TrainedLinear::backward(View<const float, 2> x, View<const float, 2> dy,
                             const InputGradient& to) const {
  // Before dx is written, which may lie where dy does.
  weight_.add_product(dy, x);
  if (bias_.requires_grad()) sum_rows(dy, bias_.dvector());
  if (to.dx.data() != nullptr) gemm(dy, weight_.matrix(outputs_), to.dx, {.accumulate = to.add});
}

TrainedNorm::TrainedNorm(ParameterList& declare, const LayerName& name, const ModelConfig& config,
                         int64_t width)
    : kind_(config.norm),
      epsilon_(config.epsilon),
      weight_(declare.vector(name.parameter + ".weight", name.tensor + ".weight", width,
                             Init::ones())) {
  if (kind_ == NormKind::rms) return;
  bias_ = declare.vector(name.parameter + ".bias", name.tensor + ".bias", width, Init::zeros());
}

void TrainedNorm::forward(View<const float, 2> x, View<float, 2> out) const {
  if (kind_ == NormKind::rms) {
    rms_norm(x, weight_.vector(), epsilon_, out);
  } else {
    layer_norm(x, weight_.vector(), bias_.vector(), epsilon_, out);
  }
}

void TrainedNorm::backward(View<const float, 2> x, View<const float, 2> dy,
                           const InputGradient& to) const {
  const NormGradients gradients{
      .dx = to.dx, .add_to_dx = to.add, .dweight = weight_.dvector(), .dbias = bias_.dvector()};
  if (kind_ == NormKind::rms) {
    rms_norm_backward(x, weight_.vector(), epsilon_, dy, gradients);
  } else {
    layer_norm_backward(x, weight_.vector(), epsilon_, dy, gradients);
  }
}

void TrainedNorm::forward(View<float, 3> heads) const {
  rms_norm(heads, weight_.vector(), epsilon_);
}

void TrainedNorm::backward(View<const float, 3> x, View<float, 3> dheads) const {
  rms_norm_backward(x, weight_.vector(), epsilon_, dheads, weight_.dvector());
}

TrainedEmbedding::TrainedEmbedding(ParameterList& declare, const LayerName& name, int64_t rows,
                                   int64_t width, const Init& init, int64_t unlearned)
    : rows_(rows),
      unlearned_(unlearned),
      tensor_(name.tensor + ".weight"),
      table_(declare.matrix(name.parameter, tensor_, rows, width, init)) {}

void TrainedEmbedding::forward(std::span<const int32_t> rows, float scale, bool add,
                               View<float, 2> out) const {
  embedding(table(), rows, scale, add, out);
}

void TrainedEmbedding::backward(View<const float, 2> dout, std::span<const int32_t> rows,
                                float scale) const {
  if (!requires_grad()) return;
  const bool has_unlearned = unlearned_ >= 0 && unlearned_ < rows_;
  const View<float, 2> sums = take_gradient().sums;
  const std::span<float> row =
      has_unlearned ? std::span(&sums(unlearned_, 0), dout.extent(1)) : std::span<float>();
  const std::vector<float> before(row.begin(), row.end());
  embedding_backward(dout, rows, scale, sums);
  std::ranges::copy(before, row.begin());
}

TrainedFeedForward::TrainedFeedForward(TrainedLinear up, TrainedLinear gate, TrainedLinear down,
                                       Activation activation)
    : up_(std::move(up)), gate_(std::move(gate)), down_(std::move(down)), activation_(activation) {}

bool TrainedFeedForward::invertible() const {
  return !gate_.exists() && (activation_ == Activation::relu || activation_ == Activation::none);
}

void TrainedFeedForward::forward(View<const float, 2> x, const Dropout& inside, View<float, 2> out,
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

void TrainedFeedForward::backward(View<const float, 2> x, const Dropout& inside, const Tape& tape,
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
