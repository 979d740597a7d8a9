// An attention of a block with a tape: forward and backward, and the choice of heads in both.
#include <algorithm>
#include <utility>

#include "model/attention_layer.h"
#include "model/routing.h"

namespace headwise {
namespace {

View<float, 3> copy_of(View<const float, 3> heads, Buffer& room) {
  const auto [T, H, D] = heads.shape();
  const View<float, 3> to(room.at_least(T * H * D), heads.shape());
  if (heads.empty()) return to;
  for (int64_t t = 0; t < T; ++t) std::copy_n(&heads(t, 0, 0), H * D, &to(t, 0, 0));
  return to;
}

bool is_trained(const SharedParameterState& state) {
  return state != nullptr && state->requires_grad;
}

}  // namespace

void AttentionLayer::forward(View<const float, 2> x, const BlockInput& input, Tape& tape,
                             AttentionScratch& scratch, View<float, 2> out,
                             const Epilogue& epilogue) const {
  MultiHeadAttention::Pass& p = tape.pass;
  attention_.project(x, cross() ? input.source : View<const float, 2>(), p);
  if (query_norm_.exists()) {
    copy_of(p.q, tape.queries);
    copy_of(p.k, tape.keys);
  }
  if (!cross()) {
    apply_qk_norm_rope(p.q, query_norm_, input.positions, scratch.rotary);
    apply_qk_norm_rope(p.k, key_norm_, input.positions, scratch.rotary);
  }
  tape.params = attention_params(input, tape.relative);
  if (is_routed()) choose(x, tape);
  attend(tape.params, p, nullptr, input.options->observer);
  if (input.wanted) {
    attention_.output_rows(*input.wanted, p, out, epilogue);
  } else {
    attention_.output(p, out, epilogue);
  }
}

void AttentionLayer::backward(View<const float, 2> x, const BlockInput& input, Tape& tape,
                              View<const float, 2> dy, const InputGradient& to,
                              AttentionScratch& scratch) const {
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
  const MultiHeadAttention::WeightGradients gradients{.to = this->gradients(),
                                                      .matrices = is_trained(weight_state_),
                                                      .biases = is_trained(bias_state_),
                                                      .grad_is_zero = grad_is_zero};
  if (input.wanted) {
    attention_.backward_output_rows(*input.wanted, dy, p, gradients);
  } else {
    attention_.backward_output(dy, p, gradients);
  }

  AttentionGradients more;
  if (input.dgates.data() != nullptr || is_routed()) {
    const int64_t rows = tape.params.gates.extent(0);
    more.dgates = {scratch.dgates.at_least(rows * s.H), {rows, s.H}};
  }
  const bool learns_bias = !cross() && input.relative != nullptr && input.relative->requires_grad();
  if (learns_bias) {
    const auto shape = tape.params.relative_bias.table.shape();
    more.dtable = {scratch.dtable.at_least(shape[0] * shape[1]), shape};
  }
  attention_.backward_attend(tape.params, p, more);
  if (input.dgates.data() != nullptr) add_gate_gradients(input, tape, more.dgates);
  if (learns_bias) input.relative->add_gradient(more.dtable, config_.heads);

  if (rotates(scratch.rotary)) {
    rotate_back(p.dq, input.positions, scratch.rotary);
    rotate_back(p.dk, input.positions, scratch.rotary);
  }
  if (query_norm_.exists()) {
    query_norm_.backward(tape.queries.view({p.q.extent(0), s.learned(), s.D}), p.dq);
    key_norm_.backward(tape.keys.view({p.k.extent(0), s.key_heads, s.D}), p.dk);
  }
  attention_.backward_project(x, cross() ? input.source : View<const float, 2>(), p,
                              {.dx = to.dx,
                               .dsource = cross() ? input.dsource : View<float, 2>(),
                               .add_to_dx = to.add,
                               .add_to_dsource = true},
                              gradients);
  if (is_routed()) {
    backward_choice(x, input, tape, more.dgates, to.dx, scratch.dlikelihoods);
  }
  lend();
}

void AttentionLayer::choose(View<const float, 2> x, Tape& tape) const {
  tape.own_gates = tape.params.gates;
  tape.own_scope = tape.params.gate_scope;
  const std::vector<int64_t> chosen = choose(x, tape.likelihoods, tape.gates, tape.params);
  const View<float, 2> p = tape.likelihoods.view();
  const int64_t T = p.extent(0), R = p.extent(1);
  const auto rows = static_cast<double>(std::max<int64_t>(1, T));
  tape.share.assign(R, 0);
  tape.balance = 0;
  for (int64_t i = 0; i < R; ++i) {
    double sum = 0;
    for (int64_t t = 0; t < T; ++t) sum += p(t, i);
    tape.share[i] =
        static_cast<double>(chosen[i]) / (rows * static_cast<double>(config_.routing->active));
    tape.balance += static_cast<double>(R) * tape.share[i] * sum / rows;
  }
}

double AttentionLayer::balance_loss(const Tape& tape) const {
  return is_routed() ? double{config_.routing->balance} * tape.balance : 0;
}

void AttentionLayer::add_gate_gradients(const BlockInput& input, const Tape& tape,
                                        View<const float, 2> dgates) const {
  const View<float, 2> to = input.dgates;
  const int64_t H = attention_.shape().H;
  if (!is_routed()) {
    for (int64_t b = 0; b < dgates.extent(0); ++b) {
      for (int64_t h = 0; h < H; ++h) to(b, site_->first + h) += dgates(b, h);
    }
    return;
  }
  Attention asked = tape.params;
  asked.gate_scope = tape.own_scope;
  for (int64_t b = 0; b + 1 < std::ssize(asked.q_offsets); ++b) {
    for (int64_t h = 0; h < H; ++h) {
      double sum = 0;
      const float gate = tape.own_gates(gate_row(asked, b, 0), h);
      for (int64_t t = asked.q_offsets[b]; gate != 0 && t < asked.q_offsets[b + 1]; ++t) {
        sum += double{dgates(t, h)} * tape.params.gates(t, h) / gate;
      }
      to(gate_row(asked, b, 0), site_->first + h) += static_cast<float>(sum);
    }
  }
}

void AttentionLayer::backward_choice(View<const float, 2> x, const BlockInput& input,
                                     const Tape& tape, View<const float, 2> dgates,
                                     View<float, 2> dx, Rows& room) const {
  const RoutingConfig& routing = *config_.routing;
  const View<float, 2> p = tape.likelihoods.view(), d = room.like(p);
  const int64_t T = p.extent(0), R = p.extent(1);
  const double balance = input.balance_scale * double{routing.balance} * static_cast<double>(R) /
                         static_cast<double>(std::max<int64_t>(1, T));
  for (int64_t t = 0; t < T; ++t) {
    double mean = 0;
    for (int64_t i = 0; i < R; ++i) {
      double dp = balance * tape.share[i];
      const int32_t head = routing.heads[i];
      // A gate is c p, its gradient for p is c times that of the gate; heads not chosen have none.
      if (head >= 0 && tape.params.gates(t, head) != 0) {
        dp += double{dgates(t, head)} * tape.params.gates(t, head) / p(t, i);
      }
      d(t, i) = static_cast<float>(dp);
      mean += dp * p(t, i);
    }
    for (int64_t i = 0; i < R; ++i) {
      d(t, i) = static_cast<float>(p(t, i) * (double{d(t, i)} - mean));
    }
  }
  router_.add_gradient(d, x);
  router_.multiply_backward(d, {.dx = dx, .add = true});
}

}  // namespace headwise
