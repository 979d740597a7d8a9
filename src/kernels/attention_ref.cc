// The specification of attention: every sentence of its contract as a loop in double, one row at a
// time.
#include "kernels/attention_ref.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include "kernels/attention_random.h"

namespace headwise {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Where one sequence lies. N and M count padding, the real counts do not.
struct Sequence {
  int64_t index;
  int64_t first_row, rows, real_rows;
  int64_t first_key, keys, real_keys;
};

Sequence sequence_at(const Attention& a, int64_t b) {
  const auto k_offsets = a.k_offsets.empty() ? a.q_offsets : a.k_offsets;
  Sequence s{.index = b,
             .first_row = a.q_offsets[b],
             .rows = a.q_offsets[b + 1] - a.q_offsets[b],
             .first_key = k_offsets[b],
             .keys = k_offsets[b + 1] - k_offsets[b]};
  s.real_rows = a.q_lengths.empty() ? s.rows : a.q_lengths[b];
  s.real_keys = a.k_lengths.empty() ? s.keys : a.k_lengths[b];
  return s;
}

int64_t sequence_count(const Attention& a) {
  return std::max<int64_t>(0, static_cast<int64_t>(a.q_offsets.size()) - 1);
}

int64_t kv_head_of(const Attention& a, int64_t h) {
  return a.kv_head.empty() ? h * a.k.extent(1) / a.q.extent(1) : a.kv_head[h];
}

int64_t position_of(const Attention& a, const Sequence& s, int64_t i) {
  return a.positions.empty() ? i + s.keys - s.rows : a.positions[s.first_row + i];
}

bool sees(const Attention& a, const Sequence& s, int64_t i, int64_t j) {
  if (i >= s.real_rows || j < 0 || j >= s.real_keys) return false;
  const int64_t p = position_of(a, s, i);
  if (a.mask.causal && j > p) return false;
  if (a.mask.first_keys != kUnlimited && j >= a.mask.first_keys) return false;
  if (a.mask.left != kUnlimited && j < p + a.mask.shift - a.mask.left) return false;
  return a.mask.right == kUnlimited || j <= p + a.mask.shift + a.mask.right;
}

double scale_of(const Attention& a) {
  return a.scale ? double{*a.scale} : 1 / std::sqrt(static_cast<double>(a.q.extent(2)));
}

double scaled_product(const Attention& a, const Sequence& s, int64_t i, int64_t h, int64_t j) {
  const int64_t kv = kv_head_of(a, h);
  double dot = 0;
  for (int64_t d = 0; d < a.q.extent(2); ++d) {
    dot += double{a.q(s.first_row + i, h, d)} * a.k(s.first_key + j, kv, d);
  }
  return scale_of(a) * dot;
}

double cap(const Attention& a, double x) {
  return a.softcap == 0 ? x : a.softcap * std::tanh(x / a.softcap);
}

double cap_slope(const Attention& a, double x) {
  if (a.softcap == 0) return 1;
  const double t = std::tanh(x / a.softcap);
  return 1 - t * t;
}

int32_t bucket_of(const Attention& a, int64_t distance) {
  const auto reach = static_cast<int64_t>(a.relative_bias.buckets.size()) / 2;
  return a.relative_bias.buckets[std::clamp(distance, -reach, reach) + reach];
}

double bias(const Attention& a, int64_t h, int64_t distance) {
  double sum = 0;
  if (!a.alibi_slopes.empty()) {
    sum -= double{a.alibi_slopes[h]} * static_cast<double>(std::abs(distance));
  }
  if (!a.relative_bias.table.empty()) sum += a.relative_bias.table(h, bucket_of(a, distance));
  return sum;
}

double dense_bias(const Attention& a, const Sequence& s, int64_t h, int64_t i, int64_t j) {
  if (a.bias.empty()) return 0;
  const double value = a.bias(s.index, h, i, j);
  return value < -1e30 ? -1e30 : value;
}

/// The softmax of one row: weights on all M keys, 0 where nothing is seen.
struct Softmax {
  std::vector<double> p;
  double lse = -kInfinity;
  double sink = 0;  // its weight
  int64_t visible = 0;
};

Softmax softmax(const Attention& a, const Sequence& s, int64_t i, int64_t h) {
  Softmax row{.p = std::vector<double>(s.keys)};
  double largest = -kInfinity;
  for (int64_t j = 0; j < s.keys; ++j) {
    if (!sees(a, s, i, j)) continue;
    const double score = cap(a, scaled_product(a, s, i, h, j)) +
                         bias(a, h, j - position_of(a, s, i)) + dense_bias(a, s, h, i, j);
    row.p[j] = score;
    if (!(score <= largest)) largest = score;  // also a NaN, which then stays
    ++row.visible;
  }
  if (row.visible == 0) return row;
  if (!a.sinks.empty() && a.sinks[h] > largest) largest = a.sinks[h];
  double sum = a.sinks.empty() ? 0 : std::exp(a.sinks[h] - largest);
  for (int64_t j = 0; j < s.keys; ++j) {
    if (sees(a, s, i, j)) sum += std::exp(row.p[j] - largest);
  }
  row.lse = largest + std::log(sum);
  if (!a.sinks.empty()) row.sink = std::exp(a.sinks[h] - row.lse);
  for (int64_t j = 0; j < s.keys; ++j) {
    if (sees(a, s, i, j)) row.p[j] = std::exp(row.p[j] - row.lse);
  }
  return row;
}

/// drop(p) = p * this.
double weight_factor(const Attention& a, int64_t row, int64_t h, int64_t j) {
  if (a.dropout == 0) return 1;
  if (weight_word(a.seed, row, h, j) < dropout_threshold(a.dropout)) return 0;
  return 1 / (1 - double{a.dropout});
}

double head_factor(const Attention& a, int64_t b, int64_t h) {
  if (a.head_dropout == 0) return 1;
  if (head_word(a.seed, b, h) < dropout_threshold(a.head_dropout)) return 0;
  return 1 / (1 - double{a.head_dropout});
}

int64_t gate_index(const Attention& a, int64_t b, int64_t row) {
  switch (a.gate_scope) {
    case GateScope::kHead:
      return 0;
    case GateScope::kSequence:
      return b;
    case GateScope::kRow:
      return row;
  }
  return 0;
}

double gate_of(const Attention& a, int64_t b, int64_t row, int64_t h) {
  return a.gates.empty() ? 1 : double{a.gates(gate_index(a, b, row), h)};
}

template <class T, int R>
void fill(View<T, R> view, T value) {
  if (view.empty()) return;
  if constexpr (R == 1) {
    for (int64_t i = 0; i < view.extent(0); ++i) view(i) = value;
  } else {
    for (int64_t i = 0; i < view.extent(0); ++i) {
      std::array<int64_t, R - 1> shape;
      std::array<ptrdiff_t, R - 1> strides;
      for (int r = 1; r < R; ++r) shape[r - 1] = view.extent(r), strides[r - 1] = view.stride(r);
      fill(View<T, R - 1>(view.data() + i * view.stride(0), shape, strides), value);
    }
  }
}

void count(RunningMean& running_mean, double value) {
  running_mean.sum += value;
  ++running_mean.n;
}

/// The key with the largest weight among those seen and not left out; the smallest key of a tie; -1
/// if there is none.
int64_t largest_key(const Attention& a, const Sequence& s, int64_t i, const Softmax& row,
                    std::span<const uint8_t> left_out) {
  int64_t largest = -1;
  for (int64_t j = 0; j < s.keys; ++j) {
    if (!sees(a, s, i, j) || (!left_out.empty() && left_out[s.first_key + j] != 0)) continue;
    if (largest < 0 || row.p[j] > row.p[largest]) largest = j;
  }
  return largest;
}

void observe_weights(const Attention& a, const Sequence& s, int64_t i, const Softmax& row,
                     const AttentionObserver& observer, HeadStatistics& head) {
  double entropy = 0, confidence = 0;
  for (const double p : row.p) {
    if (p > 0) entropy -= p * std::log(p);
    confidence = std::max(confidence, p);
  }
  count(head.entropy, entropy);
  if (row.visible > 1) count(head.entropy_ratio, entropy / std::log(row.visible));
  count(head.confidence, confidence);
  count(head.mass_first, row.p[0]);
  if (!a.sinks.empty()) count(head.mass_sink, row.sink);
  const int64_t last = s.real_keys - 1;
  const bool causal =
      a.mask.causal || (a.mask.right != kUnlimited && a.mask.right + a.mask.shift <= 0);
  if (!causal || sees(a, s, i, last)) count(head.mass_last, row.p[last]);
  for (int64_t g = 0; g < observer.key_sets.extent(0); ++g) {
    double mass = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      if (observer.key_sets(g, s.first_key + j) != 0) mass += row.p[j];
    }
    count(head.mass_key_set[g], mass);
  }
}

void observe_distances(const Attention& a, const Sequence& s, int64_t i, const Softmax& row,
                       HeadStatistics& head) {
  const int64_t position = position_of(a, s, i);
  double distance = 0, window = 0;
  for (int64_t j = 0; j < s.keys; ++j) {
    distance += row.p[j] * static_cast<double>(std::abs(position - j));
    if (std::abs(position - j) <= 2) window += row.p[j];
  }
  count(head.distance, distance);
  count(head.mass_window, window);
  if (sees(a, s, i, position - 1)) count(head.mass_previous, row.p[position - 1]);
  if (sees(a, s, i, position)) count(head.mass_self, row.p[position]);
  if (sees(a, s, i, position + 1)) count(head.mass_next, row.p[position + 1]);
  const int64_t largest = largest_key(a, s, i, row, {});
  for (int64_t d = -kMaxOffset; d <= kMaxOffset; ++d) {
    if (sees(a, s, i, position + d)) {
      count(head.offset_share[d + kMaxOffset], largest == position + d ? 1 : 0);
    }
  }
}

void observe_diagonal(const Sequence& s, int64_t i, const Softmax& row, HeadStatistics& head) {
  double mass = 0;
  for (int64_t j = 0; j < s.real_keys; ++j) {
    const double key = static_cast<double>(j) / static_cast<double>(s.real_keys);
    const double query = static_cast<double>(i) / static_cast<double>(s.real_rows);
    if (std::abs(key - query) <= 0.1) mass += row.p[j];
  }
  count(head.mass_diagonal, mass);
}

/// Pearson's correlation of the weights on the keys that are seen with their numbers, if not NaN.
double correlation(const Attention& a, const Sequence& s, int64_t i, const Softmax& row,
                   const View<const float, 2>& numbers, int64_t index) {
  std::vector<double> x, y;
  for (int64_t j = 0; j < s.keys; ++j) {
    if (!sees(a, s, i, j) || std::isnan(numbers(index, j))) continue;
    x.push_back(row.p[j]);
    y.push_back(numbers(index, j));
  }
  const auto n = static_cast<double>(x.size());
  const double mean_x = std::accumulate(x.begin(), x.end(), 0.0) / n;
  const double mean_y = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0, yy = 0, xy = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    xx += (x[k] - mean_x) * (x[k] - mean_x);
    yy += (y[k] - mean_y) * (y[k] - mean_y);
    xy += (x[k] - mean_x) * (y[k] - mean_y);
  }
  const bool varies = xx > 1e-12 * n * mean_x * mean_x && yy > 1e-12 * n * mean_y * mean_y;
  return n >= 3 && varies ? xy / std::sqrt(xx * yy) : std::nan("");
}

void observe(const Attention& a, const Sequence& s, int64_t i, int64_t h, const Softmax& row,
             AttentionObserver& observer) {
  if (row.visible == 0) return;
  HeadStatistics& head = observer.heads[h];
  observe_weights(a, s, i, row, observer, head);
  if (observer.cross) {
    observe_diagonal(s, i, row, head);
  } else {
    observe_distances(a, s, i, row, head);
  }
  const int64_t t = s.first_row + i;
  if (!observer.largest.empty()) {
    observer.largest(t, h) = static_cast<int32_t>(largest_key(a, s, i, row, {}));
  }
  if (!observer.largest_kept.empty()) {
    observer.largest_kept(t, h) =
        static_cast<int32_t>(largest_key(a, s, i, row, observer.left_out));
  }
  if (!observer.compared.empty() && observer.compared[t] >= 0) {
    const int64_t index = observer.compared[t];
    observer.correlation(index, h) =
        static_cast<float>(correlation(a, s, i, row, observer.compared_with, index));
  }
  if (observer.given_key.empty() || !sees(a, s, i, observer.given_key[t])) return;
  count(head.mass_given, row.p[observer.given_key[t]]);
  if (!observer.given_weight.empty()) {
    observer.given_weight(t, h) = static_cast<float>(row.p[observer.given_key[t]]);
  }
}

void begin_observing(const Attention& a, AttentionObserver& observer) {
  observer.heads.resize(a.q.extent(1));
  for (HeadStatistics& head : observer.heads) {
    head.mass_key_set.resize(observer.key_sets.extent(0));
  }
  fill(observer.largest, int32_t{-1});
  fill(observer.largest_kept, int32_t{-1});
  fill(observer.given_weight, 0.0f);
  fill(observer.correlation, std::numeric_limits<float>::quiet_NaN());
}

/// sum_j drop(p[j]) * v[j], the output of one row before its gate.
std::vector<double> mixed_values(const Attention& a, const Sequence& s, int64_t i, int64_t h,
                                 const Softmax& row) {
  const int64_t kv = kv_head_of(a, h);
  std::vector<double> mix(a.v.extent(2));
  for (int64_t j = 0; j < s.keys; ++j) {
    if (!sees(a, s, i, j)) continue;
    const double weight = row.p[j] * weight_factor(a, s.first_row + i, h, j);
    for (size_t d = 0; d < mix.size(); ++d) mix[d] += weight * a.v(s.first_key + j, kv, d);
  }
  return mix;
}

void forward_row(const Attention& a, const Sequence& s, int64_t i, int64_t h, View<double, 3> out,
                 View<double, 2> lse, AttentionObserver* observer) {
  const int64_t t = s.first_row + i;
  const double gate = gate_of(a, s.index, t, h) * head_factor(a, s.index, h);
  if (gate == 0 && observer == nullptr) return;
  const Softmax row = softmax(a, s, i, h);
  if (!lse.empty()) lse(t, h) = row.lse;
  if (observer != nullptr) observe(a, s, i, h, row, *observer);
  if (gate == 0) return;
  const std::vector<double> mix = mixed_values(a, s, i, h, row);
  for (size_t d = 0; d < mix.size(); ++d) out(t, h, d) = gate * mix[d];
}

/// d loss / d score of one row, from the gradient of its output before the gate:
///   dp[j] = drop'(p[j]) * dmix . v[j],   ds[j] = sum_l dp[l] * p[l] * (delta_jl - p[j]).
struct ScoreGradients {
  std::vector<double> keys;
  double sink;  // whose value is 0
};

ScoreGradients score_gradients(const Attention& a, const Sequence& s, int64_t i, int64_t h,
                               const Softmax& row, const std::vector<double>& dmix) {
  const int64_t kv = kv_head_of(a, h);
  std::vector<double> dp(s.keys), ds(s.keys);
  double mean = 0;  // sum_l dp[l] * p[l]
  for (int64_t j = 0; j < s.keys; ++j) {
    if (!sees(a, s, i, j)) continue;
    for (size_t d = 0; d < dmix.size(); ++d) dp[j] += dmix[d] * a.v(s.first_key + j, kv, d);
    dp[j] *= weight_factor(a, s.first_row + i, h, j);
    mean += dp[j] * row.p[j];
  }
  for (int64_t j = 0; j < s.keys; ++j) {
    if (sees(a, s, i, j)) ds[j] = row.p[j] * (dp[j] - mean);
  }
  return {ds, -row.sink * mean};
}

void backward_gate(const Attention& a, const Sequence& s, int64_t i, int64_t h, const Softmax& row,
                   View<const float, 3> dout, const AttentionGradientsRef& gradients) {
  const int64_t t = s.first_row + i;
  const double factor = head_factor(a, s.index, h);
  if (factor == 0) return;
  if (gate_of(a, s.index, t, h) == 0 && !gradients.at_zero_gates) return;
  const std::vector<double> mix = mixed_values(a, s, i, h, row);
  double dgate = 0;
  for (size_t d = 0; d < mix.size(); ++d) dgate += factor * mix[d] * dout(t, h, d);
  gradients.dgates(gate_index(a, s.index, t), h) += dgate;
}

void backward_row(const Attention& a, const Sequence& s, int64_t i, int64_t h,
                  View<const float, 3> dout, const AttentionGradientsRef& gradients) {
  const int64_t t = s.first_row + i;
  const Softmax row = softmax(a, s, i, h);
  if (row.visible == 0) return;
  if (!gradients.dgates.empty()) backward_gate(a, s, i, h, row, dout, gradients);
  const double gate = gate_of(a, s.index, t, h) * head_factor(a, s.index, h);
  if (gate == 0) return;
  std::vector<double> dmix(a.v.extent(2));
  for (size_t d = 0; d < dmix.size(); ++d) dmix[d] = gate * dout(t, h, d);
  const auto [ds, dsink] = score_gradients(a, s, i, h, row, dmix);
  if (!gradients.dsinks.empty()) gradients.dsinks(h) += dsink;
  const int64_t kv = kv_head_of(a, h);
  for (int64_t j = 0; j < s.keys; ++j) {
    if (!sees(a, s, i, j)) continue;
    const int64_t key = s.first_key + j;
    const double dproduct = ds[j] * cap_slope(a, scaled_product(a, s, i, h, j)) * scale_of(a);
    for (int64_t d = 0; d < a.q.extent(2); ++d) {
      if (!gradients.dq.empty()) gradients.dq(t, h, d) += dproduct * a.k(key, kv, d);
      if (!gradients.dk.empty()) gradients.dk(key, kv, d) += dproduct * a.q(t, h, d);
    }
    const double weight = row.p[j] * weight_factor(a, t, h, j);
    for (size_t d = 0; d < dmix.size() && !gradients.dv.empty(); ++d) {
      gradients.dv(key, kv, d) += weight * dmix[d];
    }
    if (!gradients.dtable.empty()) {
      gradients.dtable(h, bucket_of(a, j - position_of(a, s, i))) += ds[j];
    }
    if (!gradients.dbias.empty()) gradients.dbias(s.index, h, i, j) = ds[j];
  }
}

}  // namespace

void attention_forward_ref(const Attention& a, View<double, 3> out, View<double, 2> lse,
                           AttentionObserver* observer) {
  fill(out, 0.0);
  fill(lse, -kInfinity);
  if (observer != nullptr) begin_observing(a, *observer);
  for (int64_t b = 0; b < sequence_count(a); ++b) {
    const Sequence s = sequence_at(a, b);
    for (int64_t i = 0; i < s.rows; ++i) {
      for (int64_t h = 0; h < a.q.extent(1); ++h) forward_row(a, s, i, h, out, lse, observer);
    }
  }
}

void attention_backward_ref(const Attention& a, View<const float, 3> dout,
                            const AttentionGradientsRef& gradients) {
  fill(gradients.dq, 0.0);
  fill(gradients.dk, 0.0);
  fill(gradients.dv, 0.0);
  fill(gradients.dgates, 0.0);
  fill(gradients.dtable, 0.0);
  fill(gradients.dbias, 0.0);
  fill(gradients.dsinks, 0.0);
  for (int64_t b = 0; b < sequence_count(a); ++b) {
    const Sequence s = sequence_at(a, b);
    for (int64_t i = 0; i < s.rows; ++i) {
      for (int64_t h = 0; h < a.q.extent(1); ++h) backward_row(a, s, i, h, dout, gradients);
    }
  }
}

std::vector<double> attention_weights_ref(const Attention& a, int64_t row, int64_t head) {
  for (int64_t b = 0; b < sequence_count(a); ++b) {
    const Sequence s = sequence_at(a, b);
    if (row >= s.first_row && row < s.first_row + s.rows) {
      return softmax(a, s, row - s.first_row, head).p;
    }
  }
  return {};
}

}  // namespace headwise
