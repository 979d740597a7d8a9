// The choice of heads in training: forward, its gradients, and the loss that balances it.
#include <algorithm>

#include "headwise/kernels/softmax.h"
#include "model/routing.h"
#include "train/attention.h"

namespace headwise {

void TrainedAttention::choose(View<const float, 2> x, Tape& tape) const {
  const RoutingConfig& routing = *config_.routing;
  const int64_t T = x.extent(0), R = std::ssize(routing.heads);
  const View<float, 2> p = tape.likelihoods.shaped(T, R);
  router_.multiply(x, p, {});
  softmax(p);
  tape.asked = tape.params.gates;
  tape.asked_scope = tape.params.gate_scope;
  const View<float, 2> gates = tape.gates.shaped(T, attention_.shape().H);
  const std::vector<int64_t> chosen = choose_heads(routing, p, tape.params, gates);
  tape.params.gates = gates;
  tape.params.gate_scope = GateScope::kRow;

  const auto rows = static_cast<double>(std::max<int64_t>(1, T));
  tape.share.assign(R, 0);
  tape.balance = 0;
  for (int64_t i = 0; i < R; ++i) {
    double sum = 0;
    for (int64_t t = 0; t < T; ++t) sum += p(t, i);
    tape.share[i] = static_cast<double>(chosen[i]) / (rows * static_cast<double>(routing.active));
    tape.balance += static_cast<double>(R) * tape.share[i] * sum / rows;
  }
}

double TrainedAttention::balance_loss(const Tape& tape) const {
  return router_.exists() ? double{config_.routing->balance} * tape.balance : 0;
}

void TrainedAttention::add_gate_gradients(const StackPass& pass, const Tape& tape,
                                          View<const float, 2> dgates) const {
  const View<float, 2> to = pass.options->dgates;
  const int64_t H = attention_.shape().H;
  if (!router_.exists()) {
    for (int64_t b = 0; b < dgates.extent(0); ++b) {
      for (int64_t h = 0; h < H; ++h) to(b, site_->first + h) += dgates(b, h);
    }
    return;
  }
  Attention asked = tape.params;
  asked.gate_scope = tape.asked_scope;
  for (int64_t b = 0; b + 1 < std::ssize(asked.q_offsets); ++b) {
    for (int64_t h = 0; h < H; ++h) {
      double sum = 0;
      const float gate = tape.asked(gate_row(asked, b, 0), h);
      for (int64_t t = asked.q_offsets[b]; gate != 0 && t < asked.q_offsets[b + 1]; ++t) {
        sum += double{dgates(t, h)} * tape.params.gates(t, h) / gate;
      }
      to(gate_row(asked, b, 0), site_->first + h) += static_cast<float>(sum);
    }
  }
}

void TrainedAttention::backward_choice(View<const float, 2> x, const StackPass& pass,
                                       const Tape& tape, View<const float, 2> dgates,
                                       View<float, 2> dx, Rows& room) const {
  const RoutingConfig& routing = *config_.routing;
  const View<float, 2> p = tape.likelihoods.view(), d = room.like(p);
  const int64_t T = p.extent(0), R = p.extent(1);
  const double balance = pass.balance_scale * double{routing.balance} * static_cast<double>(R) /
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
  router_.add_product(d, x);
  router_.multiply_backward(d, {.dx = dx, .add = true});
}

}  // namespace headwise
