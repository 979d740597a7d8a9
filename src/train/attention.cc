// Forward and backward of an attention with all that belongs to it.
#include "train/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "headwise/core/seed.h"

namespace headwise {
namespace {

/// A seed of its own for every attention, since its kernel draws from a seed alone.
uint64_t seed_of(uint64_t seed, uint64_t stream) { return derived_seed(seed, stream, 0, 0xa77e); }

View<float, 3> copy(View<const float, 3> heads, Buffer& room) {
  const auto [T, H, D] = heads.shape();
  const View<float, 3> to(room.at_least(T * H * D), heads.shape());
  if (heads.empty()) return to;
  for (int64_t t = 0; t < T; ++t) std::copy_n(&heads(t, 0, 0), H * D, &to(t, 0, 0));
  return to;
}

TensorPart part(View<float, 2> values, View<float, 2> gradient) {
  return {.values = values, .gradient = gradient};
}

TensorPart row_of(View<float, 1> values, View<float, 1> gradient) {
  return {.values = {values.data(), {1, values.extent(0)}},
          .gradient = {gradient.data(), {1, gradient.extent(0)}}};
}

TensorPart transposed(const TensorPart& part) {
  return {.values = transposed(part.values), .gradient = transposed(part.gradient)};
}

/// The query, key and value rows of every head in turn (GPT-NeoX).
std::vector<TensorPart> per_head(View<float, 2> values, View<float, 2> gradient, int64_t heads,
                                 int64_t width) {
  std::vector<TensorPart> parts;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t which = 0; which < 3; ++which) {
      const int64_t begin = (which * heads + h) * width, end = begin + width;
      parts.push_back(part(values.rows(begin, end), gradient.rows(begin, end)));
    }
  }
  return parts;
}

bool on(const SharedParameterState& which) { return which != nullptr && which->requires_grad; }

View<float, 2> as_column(View<float, 1> vector) { return {vector.data(), {vector.extent(0), 1}}; }

}  // namespace

TrainedRelativeBias::TrainedRelativeBias(ParameterList& declare, const LayerName& name,
                                         const ModelConfig& config, Side side, const Init& init)
    : heads_(stack_config(config, side).heads),
      buckets_(t5_buckets(config.relative.buckets, config.relative.max_distance,
                          !stack_config(config, side).causal)),
      table_(declare.matrix({name.parameter, name.tensor + ".weight"}, heads_,
                            config.relative.buckets, init, {.transposed = true, .decays = false})) {
}

View<const float, 2> TrainedRelativeBias::of(std::span<const int32_t> heads, Buffer& room) const {
  const View<const float, 2> all = table_.matrix();
  if (std::ssize(heads) == heads_) return all;
  const int64_t R = all.extent(1);
  const View<float, 2> some(room.at_least(std::ssize(heads) * R), {std::ssize(heads), R});
  for (size_t h = 0; h < heads.size(); ++h) std::copy_n(&all(heads[h], 0), R, &some(h, 0));
  return some;
}

void TrainedRelativeBias::add_gradient(View<const float, 2> dtable,
                                       std::span<const int32_t> heads) const {
  const View<float, 2> all = table_.take_gradient().sums;
  for (size_t h = 0; h < heads.size(); ++h) {
    for (int64_t r = 0; r < all.extent(1); ++r) all(heads[h], r) += dtable(h, r);
  }
}

TrainedAttention::TrainedAttention(ParameterList& declare, const Place& place)
    : site_(&place.site),
      config_(place.attention),
      causal_(place.site.kind == AttentionKind::self &&
              stack_config(place.config, place.site.side).causal),
      stream_(place.stream),
      attention_(MultiHeadAttentionWeights(layer_config(place.config, place.attention,
                                                        place.site.kind == AttentionKind::cross)),
                 MultiHeadAttention::Weights::plain),
      gradients_(attention_.weights().zeros()),
      relative_(place.relative) {
  const MultiHeadAttentionWeights& weights = attention_.weights();
  const MultiHeadAttentionShape& s = weights.shape();
  const std::string name = place.site.name + ".attention.";
  weight_state_ =
      declare.parameter(name + "weights", weights.matrices(), gradients_.matrices(), true);
  bias_state_ = declare.parameter(name + "biases", weights.biases(), gradients_.biases(), false);
  declare_tensors(declare, place);
  if (place.config.qk_norm && !s.cross) {
    const auto norm = [&](const char* which, std::string_view tensor) {
      return Norm(declare, {name + which, place.naming.in_layer(place.site.layer, tensor)},
                  place.config, s.D);
    };
    query_norm_ = norm("query_norm", place.names.query_norm);
    key_norm_ = norm("key_norm", place.names.key_norm);
  }
  if (config_.routing) {
    router_ = declare.matrix(
        {name + "router",
         place.naming.in_layer(place.site.layer, router_name(s.cross)) + ".weight"},
        std::ssize(config_.routing->heads), s.C, Init::normal(place.init_std.output), {});
  }
}

void TrainedAttention::declare_tensors(ParameterList& declare, const Place& place) {
  const MultiHeadAttentionWeights &w = attention_.weights(), &g = gradients_;
  const MultiHeadAttentionShape& s = w.shape();
  const bool transposes = place.naming.model().transposed;
  const auto name = [&](std::string_view which, const char* ending) {
    return place.naming.in_layer(place.site.layer, which) + ending;
  };
  const auto matrix = [&](std::string_view which, View<float, 2> values, View<float, 2> gradient,
                          double deviation) {
    const TensorPart all = transposes ? transposed(part(values, gradient)) : part(values, gradient);
    declare.tensor(name(which, ".weight"), {all.values.extent(0), all.values.extent(1)}, {all},
                   Init::normal(deviation));
  };
  const auto vector = [&](std::string_view which, View<float, 1> values, View<float, 1> gradient) {
    declare.tensor(name(which, ".bias"), {values.extent(0)}, {row_of(values, gradient)},
                   Init::zeros());
  };
  const InitStd& d = place.init_std;
  switch (place.naming.model().storage) {
    case ProjectionStorage::separate:
      matrix(place.names.query, w.query(), g.query(), d.query);
      matrix(place.names.key, w.key(), g.key(), d.key_value);
      matrix(place.names.value, w.value(), g.value(), d.key_value);
      if (!s.projection_bias) break;
      vector(place.names.query, w.query_bias(), g.query_bias());
      if (s.key_bias) vector(place.names.key, w.key_bias(), g.key_bias());
      if (s.value_bias) vector(place.names.value, w.value_bias(), g.value_bias());
      break;
    case ProjectionStorage::fused:
      matrix(place.names.query, w.in_proj(), g.in_proj(), d.query);
      if (s.projection_bias) vector(place.names.query, w.in_proj_bias(), g.in_proj_bias());
      break;
    case ProjectionStorage::fused_per_head: {
      const int64_t rows = 3 * s.H * s.D;
      declare.tensor(name(place.names.query, ".weight"), {rows, s.C},
                     per_head(w.in_proj(), g.in_proj(), s.H, s.D), Init::normal(d.query));
      if (!s.projection_bias) break;
      declare.tensor(name(place.names.query, ".bias"), {rows},
                     per_head(as_column(w.in_proj_bias()), as_column(g.in_proj_bias()), s.H, s.D),
                     Init::zeros());
      break;
    }
  }
  matrix(place.names.output, w.output(), g.output(), d.attention_output);
  if (s.output_bias) vector(place.names.output, w.output_bias(), g.output_bias());
}

bool TrainedAttention::requires_grad() const {
  return on(weight_state_) || on(bias_state_) || query_norm_.requires_grad() ||
         key_norm_.requires_grad() || router_.requires_grad();
}

bool TrainedAttention::rotates(const StackPass& pass) const {
  return !cross() && config_.rotary && pass.rotary != nullptr;
}

Attention TrainedAttention::attention_params(const StackPass& pass, Tape& tape) const {
  const PassOptions& options = *pass.options;
  Attention params{.q_offsets = pass.offsets,
                   .scale = config_.scale,
                   .dropout = options.attention_dropout,
                   .head_dropout = options.head_dropout,
                   .seed = seed_of(options.seed, stream_)};
  set_gates(params, *site_, options.gates);
  if (cross()) {
    params.k_offsets = pass.source_offsets;
  } else {
    params.mask = {.causal = causal_, .left = config_.left};
  }
  if (relative_ != nullptr) {
    params.relative_bias = {.table = relative_->of(config_.heads, tape.relative),
                            .buckets = relative_->buckets()};
  }
  return params;
}

void TrainedAttention::attend(View<const float, 2> x, const StackPass& pass, Tape& tape) const {
  MultiHeadAttention::Pass& p = tape.pass;
  attention_.project(x, cross() ? pass.source : View<const float, 2>(), p);
  if (query_norm_.exists()) {
    copy(p.q, tape.queries);
    copy(p.k, tape.keys);
    query_norm_.forward(p.q);
    key_norm_.forward(p.k);
  }
  if (rotates(pass)) {
    rotate(p.q, pass.positions, *pass.rotary);
    rotate(p.k, pass.positions, *pass.rotary);
  }
  tape.params = attention_params(pass, tape);
  if (router_.exists()) choose(x, tape);
  ForwardObserver* const observer = pass.options->observer;
  if (observer == nullptr) {
    attention_.attend(tape.params, p);
    return;
  }
  Attention seen = tape.params;
  seen.q = p.q;
  seen.k = p.k;
  seen.v = p.v;
  seen.kv_head = attention_.shape().kv_head;
  attention_.attend(tape.params, p, observer->attention_observer(*site_, seen));
  observer->on_z(*site_, seen, attention_, p.z, p.lse);
}

void TrainedAttention::output(const StackPass& pass, Tape& tape, View<float, 2> out,
                              const Epilogue& epilogue) const {
  if (pass.wanted) {
    attention_.output_rows(*pass.wanted, tape.pass, out, epilogue);
  } else {
    attention_.output(tape.pass, out, epilogue);
  }
}

void TrainedAttention::backward(View<const float, 2> x, const StackPass& pass, Tape& tape,
                                View<const float, 2> dy, const InputGradient& to,
                                Scratch& scratch) {
  MultiHeadAttention::Pass& p = tape.pass;
  const MultiHeadAttentionShape& s = attention_.shape();
  const auto lend = [&] {
    std::swap(p.dprojected, scratch.dprojected);
    std::swap(p.dprojected_source, scratch.dprojected_source);
    std::swap(p.dheads, scratch.dheads);
    std::swap(p.dvalues, scratch.dvalues);
  };
  lend();
  const bool grad_is_zero =
      weight_state_ != nullptr && std::exchange(weight_state_->grad_is_zero, false);
  const MultiHeadAttention::WeightGradients gradients{.to = &gradients_,
                                                      .matrices = on(weight_state_),
                                                      .biases = on(bias_state_),
                                                      .grad_is_zero = grad_is_zero};
  if (pass.wanted) {
    attention_.backward_output_rows(*pass.wanted, dy, p, gradients);
  } else {
    attention_.backward_output(dy, p, gradients);
  }

  AttentionGradients more;
  if (pass.options->dgates.data() != nullptr || router_.exists()) {
    const int64_t rows = tape.params.gates.extent(0);
    more.dgates = {scratch.dgates.at_least(rows * s.H), {rows, s.H}};
  }
  const bool learns_bias = relative_ != nullptr && relative_->requires_grad();
  if (learns_bias) {
    const auto shape = tape.params.relative_bias.table.shape();
    more.dtable = {scratch.dtable.at_least(shape[0] * shape[1]), shape};
  }
  attention_.backward_attend(tape.params, p, more);
  if (pass.wants_gates()) add_gate_gradients(pass, tape, more.dgates);
  if (learns_bias) relative_->add_gradient(more.dtable, config_.heads);

  if (rotates(pass)) {
    rotate_back(p.dq, pass.positions, *pass.rotary);
    rotate_back(p.dk, pass.positions, *pass.rotary);
  }
  if (query_norm_.exists()) {
    query_norm_.backward(tape.queries.view({p.q.extent(0), s.learned(), s.D}), p.dq);
    key_norm_.backward(tape.keys.view({p.k.extent(0), s.key_heads, s.D}), p.dk);
  }
  attention_.backward_project(x, cross() ? pass.source : View<const float, 2>(), p,
                              {.dx = to.dx,
                               .dsource = cross() ? pass.dsource : View<float, 2>(),
                               .add_to_dx = to.add,
                               .add_to_dsource = true},
                              gradients);
  if (router_.exists()) {
    backward_choice(x, pass, tape, more.dgates, to.dx, scratch.dlikelihoods);
  }
  lend();
}

}  // namespace headwise
