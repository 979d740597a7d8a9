// Runs a batch through the layers of a model and back.
#include "train/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "headwise/core/error.h"
#include "headwise/core/shape.h"

namespace headwise {
namespace {

void check_probability(const char* name, float p) {
  if (p >= 0 && p < 1) return;
  throw Error({.what = "a probability of dropping cannot be this",
               .where = name,
               .got = fmt::format("{}", p),
               .expected = "at least 0, below 1"});
}

}  // namespace

Network::Network(const Transformer& layers, Similarity similarity)
    : layers_(layers), similarity_(std::move(similarity)) {
  if (layers.config.task != Task::hidden) {
    loss_ = std::make_unique<TaskLoss>(layers.config, layers.head);
  }
}

void Network::check(const TrainingBatch& batch, const PassOptions& options, bool two) const {
  check_probability("dropout", options.dropout);
  check_probability("attention_dropout", options.attention_dropout);
  check_probability("head_dropout", options.head_dropout);
  batch.source.check();
  if (two) batch.target.check();
  check_gates(options.gates, layers_.sites, batch.source.sequences());
  if (options.dgates.data() != nullptr && options.dgates.shape() != options.gates.shape()) {
    throw Error({.what = "the gradients of gates are not shaped as the gates",
                 .got = to_string(options.dgates.shape()),
                 .expected = to_string(options.gates.shape())});
  }
  if (two) {
    if (batch.source.sequences() == batch.target.sequences()) return;
    throw Error({.what = "sources and targets are not as many",
                 .got = fmt::format("{}", batch.target.sequences()),
                 .expected = fmt::format("{}", batch.source.sequences())});
  }
  if (batch.target.rows() == 0) return;
  throw Error({.what = "targets were given to a model without encoder and decoder",
               .got = layers_.config.model_type,
               .expected = "marian or t5",
               .hint = "give it texts and labels"});
}

Network::Forward Network::forward(const TrainingBatch& batch, const PassOptions& options, bool two,
                                  bool backward, TaskLoss* loss) {
  check(batch, options, two);
  Forward pass{
      .two = two,
      .last = two || layers_.config.encoder.layers() == 0 ? &layers_.decoder : &layers_.encoder,
      .texts = two ? &batch.target : &batch.source};
  forward_options_ = {.gates = options.gates, .observer = options.observer};
  BlockInput input{.options = &forward_options_,
                   .drop = {.residual = options.dropout,
                            .attention = options.attention_dropout,
                            .head = options.head_dropout,
                            .seed = options.seed},
                   .dgates = options.dgates};
  if (two) {
    const View<float, 2> source =
        layers_.encoder.forward(batch.source, input, encoder_tape_, scratch_);
    if (backward && layers_.encoder.wants_gradient(options.dgates.data() != nullptr)) {
      pass.dsource = dsource_.like(source);
    }
    input.source_offsets = batch.source.offsets;
    input.source = source;
    input.dsource = pass.dsource;
  }
  if (loss != nullptr) input.wanted = loss->choose(pass.texts->offsets, batch);
  pass.hidden = pass.last->forward(*pass.texts, input, tape_, scratch_);
  return pass;
}

void Network::backward(const Forward& pass, View<float, 2> dhidden, double balance_scale) {
  const View<float, 2> dsource = pass.dsource;
  if (dsource.data() != nullptr) {
    std::fill_n(dsource.data(), dsource.extent(0) * dsource.extent(1), 0.f);
  }
  pass.last->backward(dhidden, balance_scale, tape_, scratch_);
  if (dsource.data() != nullptr) {
    layers_.encoder.backward(dsource, balance_scale, encoder_tape_, scratch_);
  }
}

Loss Network::run(const TrainingBatch& batch, const PassOptions& options, bool backward) {
  const Forward pass =
      forward(batch, options, layers_.config.encoder_decoder(), backward, loss_.get());
  const View<float, 2> dhidden = backward ? dhidden_.like(pass.hidden) : View<float, 2>();
  Loss loss = loss_ == nullptr ? similarity_.run(pass.hidden, batch, options, dhidden)
                               : loss_->run(pass.hidden, options, dhidden);
  const double balance = options.balance ? static_cast<double>(loss.scored) : 0;
  loss.loss += balance * (pass.last->balance_loss(tape_) +
                          (pass.two ? layers_.encoder.balance_loss(encoder_tape_) : 0));
  if (backward && loss.scored > 0) {
    this->backward(pass, dhidden, balance * double{options.gradient_scale});
  }
  return loss;
}

void Network::run_hidden(const TrainingBatch& batch, const PassOptions& options,
                         const TrainableModel::NextGradient& next) {
  const bool two = layers_.config.encoder_decoder() && batch.target.sequences() > 0;
  const Forward pass = forward(batch, options, two, true, nullptr);
  const View<float, 2> dhidden = dhidden_.like(pass.hidden);
  while (next(pass.hidden, dhidden)) backward(pass, dhidden, 0);
}

}  // namespace headwise
