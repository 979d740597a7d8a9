// Declares the layers of a model, and runs a batch through them and back.
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

Network::Network(const ModelConfig& config, Declarations& declare, const Options& options,
                 Similarity similarity)
    : config_(config), sites_(attention_sites(config)), similarity_(std::move(similarity)) {
  uint64_t streams = 0;
  const auto stack = [&](Side side, TrainedEmbedding* shared_word) {
    return std::make_unique<TrainedStack>(declare,
                                          TrainedStack::Place{.config = config,
                                                              .side = side,
                                                              .prefix = options.prefix,
                                                              .sites = sites_,
                                                              .deviations = options.deviations,
                                                              .shared_word = shared_word,
                                                              .streams = streams});
  };
  if (config.encoder.layers() > 0) encoder_ = stack(Side::encoder, nullptr);
  if (config.decoder.layers() > 0) {
    decoder_ = stack(Side::decoder, encoder_ == nullptr ? nullptr : &encoder_->word());
  }
  if (config.task == Task::hidden) return;
  TrainedStack& last = decoder_ != nullptr ? *decoder_ : *encoder_;
  output_ = std::make_unique<TrainedOutput>(declare,
                                            TrainedOutput::Place{.config = config,
                                                                 .prefix = options.prefix,
                                                                 .word = last.word(),
                                                                 .deviations = options.deviations,
                                                                 .fresh = options.fresh,
                                                                 .streams = streams});
}

void Network::check(const TrainingBatch& batch, const PassOptions& options) const {
  check_probability("dropout", options.dropout);
  check_probability("attention_dropout", options.attention_dropout);
  check_probability("head_dropout", options.head_dropout);
  check_gates(options.gates, sites_, batch.source.texts());
  if (options.dgates.data() != nullptr && options.dgates.shape() != options.gates.shape()) {
    throw Error({.what = "the gradients of gates are not shaped as the gates",
                 .got = to_string(options.dgates.shape()),
                 .expected = to_string(options.gates.shape())});
  }
  if (config_.encoder_decoder()) {
    if (batch.source.texts() == batch.target.texts()) return;
    throw Error({.what = "sources and targets are not as many",
                 .got = fmt::format("{}", batch.target.texts()),
                 .expected = fmt::format("{}", batch.source.texts())});
  }
  if (batch.target.rows() == 0) return;
  throw Error({.what = "targets were given to a model without encoder and decoder",
               .got = config_.model_type,
               .expected = "marian or t5",
               .hint = "give it texts and labels"});
}

Loss Network::run(const TrainingBatch& batch, const PassOptions& options, bool backward) {
  check(batch, options);
  const bool two = config_.encoder_decoder();
  TrainedStack& last = decoder_ != nullptr ? *decoder_ : *encoder_;
  const TokenBatch& scored = two ? batch.target : batch.source;
  TrainedStack::Source source;
  if (two) {
    source.offsets = batch.source.offsets;
    source.rows = encoder_->forward(batch.source, options, {}, scratch_);
    if (backward && encoder_->depth_of_backward(options.dgates.data() != nullptr) > 0) {
      source.gradient = dsource_.like(source.rows);
      std::fill_n(source.gradient.data(), batch.source.rows() * config_.width, 0.f);
    }
  }
  const View<float, 2> hidden = last.forward(scored, options, source, scratch_);
  const View<float, 2> dhidden = backward ? dhidden_.like(hidden) : View<float, 2>();
  Loss loss = output_ == nullptr ? similarity_.run(hidden, batch, options, dhidden)
                                 : output_->run(hidden, scored.offsets, batch, options, dhidden);
  const auto count = static_cast<double>(loss.scored);
  loss.loss += count * (last.balance_loss() + (two ? encoder_->balance_loss() : 0));
  if (!backward || loss.scored == 0) return loss;
  const double balance_scale = count * double{options.gradient_scale};
  last.backward(dhidden, balance_scale, scratch_);
  if (source.gradient.data() != nullptr) {
    encoder_->backward(source.gradient, balance_scale, scratch_);
  }
  return loss;
}

std::vector<TrainedAttention*> Network::attentions() const {
  std::vector<TrainedAttention*> found;
  for (TrainedStack* stack : {encoder_.get(), decoder_.get()}) {
    for (const bool cross : {false, true}) {
      if (stack == nullptr) continue;
      for (TrainedBlock& block : stack->blocks()) {
        if (!cross) found.push_back(&block.attentions()[0]);
        if (cross && block.attentions().size() > 1) found.push_back(&block.attentions()[1]);
      }
    }
  }
  return found;
}

}  // namespace headwise
