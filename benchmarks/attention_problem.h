// Attention on numbers that the peer can make too: inputs, outputs, gradients and statistics of one
// shape.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/core/buffer.h"
#include "headwise/kernels/attention.h"

namespace headwise::bench {

struct AttentionShape {
  int64_t B, H, N, D;
  bool causal = false;
  bool fused = false;  // q, k and v as one projection leaves them, [T, 3, H, D]; else [3, H, T, D]
};

/// The multiplications and additions of the two products, 4 D for every weight that is not masked;
/// backward does five products.
double forward_flops(const AttentionShape& shape);
double forward_backward_flops(const AttentionShape& shape);

class AttentionProblem {
 public:
  explicit AttentionProblem(const AttentionShape& shape);

  void forward() { attention_forward(attention_, out(), lse()); }
  void observed_forward() { attention_forward(attention_, out(), lse(), &observer_); }
  void backward();

  /// In the peer's order, [B, H, N, D] each: the output; dq, dk, dv; [H, 30]: means of statistics.
  std::vector<float> output() const;
  std::vector<float> gradients() const;
  std::vector<float> statistics_means() const;

  /// Bytes of all that is read and written: not the working memory.
  int64_t bytes() const;

 private:
  View<float, 3> part(const Buffer& buffer, int64_t which, int64_t parts) const;
  View<float, 3> out() const { return part(out_, 0, 1); }
  View<float, 2> lse() const { return lse_.view({rows(), shape_.H}); }
  View<float, 3> dout() const { return part(dout_, 0, 1); }
  int64_t rows() const { return shape_.B * shape_.N; }
  void fill(uint32_t tensor, View<float, 3> view) const;
  void append(View<const float, 3> view, std::vector<float>& to) const;

  AttentionShape shape_;
  Buffer qkv_, dqkv_, out_, lse_, dout_, given_weight_;
  AlignedBuffer<int32_t> largest_;
  AlignedBuffer<uint8_t> key_sets_;
  std::vector<int64_t> offsets_, given_key_;
  Attention attention_;
  AttentionObserver observer_;
};

}  // namespace headwise::bench
