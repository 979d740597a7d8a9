// The sums of absolute values that bound rounding errors, over the visible keys of every row.
#include "kernels/attention_bounds.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/attention_random.h"
#include "kernels/attention_ref.h"

namespace headwise::tests {
namespace {

/// What the bounds need to know of the largest of everything.
struct Sizes {
  double product = 0;  // A
  double score = 0;    // S
  double bias = 0;     // W
  double lse = 0;
  double keys = 0;   // M
  double terms = 0;  // n: of the longest sum of a gradient
};

class Walk {
 public:
  Walk(const Attention& attention, View<const float, 3> dout, Bounds& bounds)
      : a_(attention), dout_(dout), bounds_(bounds) {
    scale_ = std::abs(a_.scale ? double{*a_.scale} : 1 / std::sqrt(double(a_.q.extent(2))));
  }

  Sizes run() {
    const auto k_offsets = a_.k_offsets.empty() ? a_.q_offsets : a_.k_offsets;
    for (size_t b = 0; b + 1 < a_.q_offsets.size(); ++b) {
      sequence_ = static_cast<int64_t>(b);
      first_key_ = k_offsets[b];
      keys_ = k_offsets[b + 1] - k_offsets[b];
      const int64_t rows = a_.q_offsets[b + 1] - a_.q_offsets[b];
      sizes_.keys = std::max<double>(sizes_.keys, keys_);
      sizes_.terms = std::max<double>(sizes_.terms, rows * a_.q.extent(1));
      for (int64_t i = 0; i < rows; ++i) {
        row_ = a_.q_offsets[b] + i;
        position_ = a_.positions.empty() ? i + keys_ - rows : a_.positions[row_];
        for (head_ = 0; head_ < a_.q.extent(1); ++head_) walk_row();
      }
    }
    if (!a_.gates.empty() || !a_.relative_bias.table.empty() || !a_.sinks.empty()) {
      sizes_.terms = std::max<double>(sizes_.terms, a_.q.extent(0) + sizes_.keys);
    }
    return sizes_;
  }

 private:
  void walk_row() {
    kv_ = a_.kv_head.empty() ? head_ * a_.k.extent(1) / a_.q.extent(1) : a_.kv_head[head_];
    const std::vector<double> p = attention_weights_ref(a_, row_, head_);
    const double g = std::abs(gate());
    double largest_dp = 0;  // G
    for (int64_t j = 0; j < keys_; ++j) {
      if (p[j] == 0) continue;
      measure_score(j);
      double dp = 0;
      for (int64_t d = 0; d < a_.v.extent(2); ++d)
        dp += std::abs(dout_(row_, head_, d) * value(j, d));
      largest_dp = std::max(largest_dp, g * factor(j) * dp);
      add_gate(p[j] * factor(j) * dp);
    }
    for (int64_t j = 0; j < keys_ && g != 0; ++j) {
      if (p[j] != 0) add_sums(j, p[j], g, largest_dp);
    }
    if (a_.sinks.empty() || largest_dp == 0) return;
    sizes_.score = std::max(sizes_.score, std::abs(double{a_.sinks[head_]}));
    const double sink = 1 - std::accumulate(p.begin(), p.end(), 0.0);
    bounds_.absolute.dsinks.view()(head_) += sink * largest_dp;
  }

  void measure_score(int64_t j) {
    double product = 0, dot = 0;
    for (int64_t d = 0; d < a_.q.extent(2); ++d) {
      const double term = double{a_.q(row_, head_, d)} * a_.k(first_key_ + j, kv_, d);
      product += std::abs(term);
      dot += term;
    }
    double bias = 0;
    if (!a_.alibi_slopes.empty()) {
      bias += std::abs(double{a_.alibi_slopes[head_]}) * std::abs(double(j - position_));
    }
    if (!a_.relative_bias.table.empty()) bias += std::abs(a_.relative_bias.table(head_, bucket(j)));
    if (!a_.bias.empty()) {
      bias += std::abs(a_.bias(sequence_, head_, row_ - a_.q_offsets[sequence_], j));
    }
    sizes_.product = std::max(sizes_.product, scale_ * product);
    sizes_.bias = std::max(sizes_.bias, bias);
    sizes_.score = std::max(sizes_.score, scale_ * std::abs(dot) + bias);
  }

  void add_sums(int64_t j, double p, double g, double largest_dp) {
    const int64_t key = first_key_ + j;
    for (int64_t d = 0; d < a_.q.extent(2); ++d) {
      bounds_.absolute.dq.view()(row_, head_, d) +=
          scale_ * p * largest_dp * std::abs(a_.k(key, kv_, d));
      bounds_.absolute.dk.view()(key, kv_, d) +=
          scale_ * p * largest_dp * std::abs(a_.q(row_, head_, d));
    }
    const double weight = p * factor(j) * g;
    for (int64_t d = 0; d < a_.v.extent(2); ++d) {
      bounds_.absolute.out.view()(row_, head_, d) += weight * std::abs(value(j, d));
      bounds_.absolute.dv.view()(key, kv_, d) += weight * std::abs(dout_(row_, head_, d));
    }
    if (!a_.relative_bias.table.empty()) {
      bounds_.absolute.dtable.view()(head_, bucket(j)) += p * largest_dp;
    }
    if (!a_.bias.empty()) {
      bounds_.absolute.dbias.view()(sequence_, head_, row_ - a_.q_offsets[sequence_], j) +=
          p * largest_dp;
    }
  }

  void add_gate(double value) {
    if (!a_.gates.empty())
      bounds_.absolute.dgates.view()(gate_row(), head_) += head_scale() * value;
  }

  int64_t gate_row() const {
    return a_.gate_scope == GateScope::kHead  ? 0
           : a_.gate_scope == GateScope::kRow ? row_
                                              : sequence_;
  }
  double head_scale() const {
    if (a_.head_dropout == 0) return 1;
    const bool dropped = head_word(a_.seed, sequence_, head_) < dropout_threshold(a_.head_dropout);
    return dropped ? 0 : 1 / (1 - double{a_.head_dropout});
  }
  double gate() const {
    return (a_.gates.empty() ? 1.0 : double{a_.gates(gate_row(), head_)}) * head_scale();
  }
  double factor(int64_t j) const {
    if (a_.dropout == 0) return 1;
    const bool dropped = weight_word(a_.seed, row_, head_, j) < dropout_threshold(a_.dropout);
    return dropped ? 0 : 1 / (1 - double{a_.dropout});
  }
  double value(int64_t j, int64_t d) const { return a_.v(first_key_ + j, kv_, d); }
  int32_t bucket(int64_t j) const {
    const auto reach = static_cast<int64_t>(a_.relative_bias.buckets.size()) / 2;
    return a_.relative_bias.buckets[std::clamp(j - position_, -reach, reach) + reach];
  }

  const Attention& a_;
  View<const float, 3> dout_;
  Bounds& bounds_;
  Sizes sizes_;
  double scale_;
  int64_t sequence_ = 0, first_key_ = 0, keys_ = 0, row_ = 0, head_ = 0, kv_ = 0, position_ = 0;
};

}  // namespace

Bounds attention_bounds(const Attention& attention, View<const float, 3> dout) {
  Bounds bounds(attention);
  Sizes s = Walk(attention, dout, bounds).run();
  s.lse = s.score + std::log(std::max(1.0, s.keys));
  const double width = attention.q.extent(2), value_width = attention.v.extent(2);
  bounds.largest_score = s.score;
  bounds.score =
      kUnit * ((width + 4) * s.product + kFunction * attention.softcap + 3 * s.bias + 2 * s.score);
  bounds.lse = bounds.score + kUnit * (s.keys + kFunction + 2 * s.lse);
  bounds.weight = bounds.score + bounds.lse + kUnit * (4 * s.score + kFunction);
  bounds.output = bounds.weight + kUnit * (s.keys + kFunction);
  const double score_gradient =
      2 * (bounds.weight + kUnit * (value_width + kFunction)) + bounds.output;
  const double slope =
      attention.softcap == 0 ? 0 : kFunction * kUnit + 2 * bounds.score / double{attention.softcap};
  bounds.gradient =
      score_gradient + 2 * slope + 2 * kUnit * (std::max(s.keys, s.terms) + kFunction);
  return bounds;
}

}  // namespace headwise::tests
