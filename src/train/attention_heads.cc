// Heads of an attention taken one by one: into another one, as equals, and their gradients.
#include <algorithm>
#include <cmath>
#include <vector>

#include "headwise/kernels/adamw.h"
#include "train/attention.h"

namespace headwise {
namespace {

int64_t index_of(int32_t name, const std::vector<int32_t>& names) {
  return std::ranges::find(names, name) - names.begin();
}

void copy_rows(View<float, 2> from, int64_t old, View<float, 2> to, int64_t head, int64_t width) {
  for (int64_t i = 0; i < width; ++i) {
    std::copy_n(&from(old * width + i, 0), to.extent(1), &to(head * width + i, 0));
  }
}

void copy_numbers(View<float, 1> from, int64_t old, View<float, 1> to, int64_t head,
                  int64_t width) {
  if (to.data() == nullptr) return;
  std::copy_n(from.data() + old * width, width, to.data() + head * width);
}

}  // namespace

void TrainedAttention::take_heads(const TrainedAttention& other, std::span<const float> gates) {
  const MultiHeadAttentionWeights &to = attention_.weights(), &from = other.attention_.weights();
  const MultiHeadAttentionShape& s = to.shape();
  for (int64_t h = 0; h < s.H; ++h) {
    const int64_t old = index_of(config_.heads[h], other.config_.heads);
    for (int64_t c = 0; c < s.C; ++c) {
      for (int64_t i = 0; i < s.Dv; ++i) {
        to.output()(c, h * s.Dv + i) = gates[old] * from.output()(c, old * s.Dv + i);
      }
    }
    if (h >= s.learned()) continue;
    copy_rows(from.query(), old, to.query(), h, s.D);
    copy_numbers(from.query_bias(), old, to.query_bias(), h, s.D);
  }
  for (int64_t kv = 0; kv < s.K; ++kv) {
    const int64_t old = index_of(config_.kv_heads[kv], other.config_.kv_heads);
    copy_rows(from.value(), old, to.value(), kv, s.Dv);
    copy_numbers(from.value_bias(), old, to.value_bias(), kv, s.Dv);
    if (kv >= s.key_heads) continue;
    copy_rows(from.key(), old, to.key(), kv, s.D);
    copy_numbers(from.key_bias(), old, to.key_bias(), kv, s.D);
  }
  if (s.output_bias) copy_numbers(from.output_bias(), 0, to.output_bias(), 0, s.C);
  repack();
}

void TrainedAttention::make_heads_equal() {
  const MultiHeadAttentionWeights& w = attention_.weights();
  const MultiHeadAttentionShape& s = w.shape();
  const auto repeat_rows = [](View<float, 2> rows, int64_t heads, int64_t width) {
    for (int64_t h = 1; h < heads; ++h) {
      std::copy_n(rows.data(), width * rows.extent(1), &rows(h * width, 0));
    }
  };
  repeat_rows(w.query(), s.learned(), s.D);
  repeat_rows(w.key(), s.key_heads, s.D);
  repeat_rows(w.value(), s.K, s.Dv);
  const View<float, 2> output = w.output();
  for (int64_t c = 0; c < s.C; ++c) {
    for (int64_t i = s.Dv; i < s.H * s.Dv; ++i) output(c, i) = output(c, i % s.Dv);
  }
}

void TrainedAttention::gradient_norms(std::span<double> norms) const {
  const MultiHeadAttentionShape& s = gradients_.shape();
  const auto squares = [](View<float, 2> rows, int64_t head, int64_t width) {
    return sum_of_squares({&rows(head * width, 0), static_cast<size_t>(width * rows.extent(1))});
  };
  for (int64_t h = 0; h < s.H; ++h) {
    const int64_t kv = s.kv_of(h);
    double sum = squares(gradients_.value(), kv, s.Dv);
    if (h < s.learned()) {
      sum += squares(gradients_.query(), h, s.D) + squares(gradients_.key(), kv, s.D);
    }
    for (int64_t c = 0; c < s.C; ++c) {
      sum += sum_of_squares({&gradients_.output()(c, h * s.Dv), static_cast<size_t>(s.Dv)});
    }
    norms[h] = std::sqrt(sum);
  }
}

}  // namespace headwise
