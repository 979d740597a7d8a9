// Making the numbers, calling the kernels, and bringing results into the peer's order.
#include "attention_problem.h"

#include <algorithm>

namespace headwise::bench {
namespace {

/// Uniform, mean 0, variance 1: a hash of the index, as noise() in peer_attention.py.
float noise(uint32_t tensor, uint32_t index) {
  uint32_t x = index + tensor * 0x9E3779B9u;
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  x = x ^ x >> 16;
  return (static_cast<float>(x >> 8) * 0x1p-24f - 0.5f) * 3.4641016f;
}

double weights(const AttentionShape& shape) {
  const double n = static_cast<double>(shape.N);
  return static_cast<double>(shape.B * shape.H) * (shape.causal ? n * (n + 1) / 2 : n * n);
}

}  // namespace

double forward_flops(const AttentionShape& shape) {
  return 4.0 * static_cast<double>(shape.D) * weights(shape);
}

double forward_backward_flops(const AttentionShape& shape) { return 3.5 * forward_flops(shape); }

AttentionProblem::AttentionProblem(const AttentionShape& shape)
    : shape_(shape),
      qkv_(rows() * 3 * shape.H * shape.D),
      dqkv_(Buffer::zeros(qkv_.size())),
      out_(Buffer::zeros(rows() * shape.H * shape.D)),
      lse_(Buffer::zeros(rows() * shape.H)),
      dout_(out_.size()),
      given_weight_(Buffer::zeros(lse_.size())),
      largest_(AlignedBuffer<int32_t>::zeros(lse_.size())),
      key_sets_(AlignedBuffer<uint8_t>::zeros(2 * rows())) {
  for (uint32_t which = 0; which < 3; ++which) fill(which, part(qkv_, which, 3));
  fill(3, dout());
  const View<uint8_t, 2> sets = key_sets_.view({2, rows()});
  for (int64_t b = 0; b < shape.B; ++b) {
    offsets_.push_back(b * shape.N);
    for (int64_t n = 0; n < shape.N; ++n) {
      const int64_t row = b * shape.N + n;
      sets(0, row) = n == 0 || n == shape.N - 1;  // special
      sets(1, row) = n % 10 == 5;                 // punctuation
      given_key_.push_back((n * 7 + 3) % shape.N);
    }
  }
  offsets_.push_back(rows());

  attention_.q = part(qkv_, 0, 3);
  attention_.k = part(qkv_, 1, 3);
  attention_.v = part(qkv_, 2, 3);
  attention_.q_offsets = offsets_;
  attention_.mask.causal = shape.causal;
  observer_.key_sets = sets;
  observer_.given_key = given_key_;
  observer_.largest = largest_.view({rows(), shape.H});
  observer_.given_weight = given_weight_.view({rows(), shape.H});
}

View<float, 3> AttentionProblem::part(const Buffer& buffer, int64_t which, int64_t parts) const {
  const int64_t C = shape_.H * shape_.D, T = rows();
  if (shape_.fused) {
    return {buffer.data() + which * C, {T, shape_.H, shape_.D}, {parts * C, shape_.D, 1}};
  }
  return {buffer.data() + which * T * C, {T, shape_.H, shape_.D}, {shape_.D, T * shape_.D, 1}};
}

void AttentionProblem::backward() {
  attention_backward(attention_, out(), lse(), dout(),
                     {.dq = part(dqkv_, 0, 3), .dk = part(dqkv_, 1, 3), .dv = part(dqkv_, 2, 3)});
}

void AttentionProblem::fill(uint32_t tensor, View<float, 3> view) const {
  uint32_t index = 0;
  for (int64_t b = 0; b < shape_.B; ++b) {
    for (int64_t h = 0; h < shape_.H; ++h) {
      for (int64_t n = 0; n < shape_.N; ++n) {
        for (int64_t d = 0; d < shape_.D; ++d)
          view(b * shape_.N + n, h, d) = noise(tensor, index++);
      }
    }
  }
}

void AttentionProblem::append(View<const float, 3> view, std::vector<float>& to) const {
  for (int64_t b = 0; b < shape_.B; ++b) {
    for (int64_t h = 0; h < shape_.H; ++h) {
      for (int64_t n = 0; n < shape_.N; ++n) {
        for (int64_t d = 0; d < shape_.D; ++d) to.push_back(view(b * shape_.N + n, h, d));
      }
    }
  }
}

std::vector<float> AttentionProblem::output() const {
  std::vector<float> numbers;
  append(out(), numbers);
  return numbers;
}

std::vector<float> AttentionProblem::gradients() const {
  std::vector<float> numbers;
  for (int64_t which = 0; which < 3; ++which) append(part(dqkv_, which, 3), numbers);
  return numbers;
}

std::vector<float> AttentionProblem::statistics_means() const {
  std::vector<float> means;
  const auto add = [&means](const RunningMean& t) {
    means.push_back(static_cast<float>(t.mean()));
  };
  for (const HeadStatistics& head : observer_.heads) {
    for (const RunningMean& running_mean :
         {head.entropy, head.entropy_ratio, head.confidence, head.distance, head.mass_previous,
          head.mass_self, head.mass_next, head.mass_first, head.mass_last, head.mass_key_set[0],
          head.mass_key_set[1], head.mass_window, head.mass_given}) {
      add(running_mean);
    }
    for (const RunningMean& share : head.offset_share) add(share);
  }
  return means;
}

int64_t AttentionProblem::bytes() const {
  const int64_t floats = qkv_.size() + dqkv_.size() + out_.size() + lse_.size() + dout_.size() +
                         given_weight_.size() + largest_.size();
  const int64_t indices = static_cast<int64_t>(offsets_.size() + given_key_.size());
  return 4 * floats + 8 * indices + key_sets_.size();
}

}  // namespace headwise::bench
