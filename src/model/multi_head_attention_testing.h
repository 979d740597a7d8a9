// Multi-head attention for tests: problems drawn at random, the layer's answers, and the plain
// loops they are compared with.
//
// The loops run in double, or in Bounded: a double with a bound on how far the same computation in
// float may be off, carried along by the rules of attention_bounds.h: u = 2^-24; a sum of n
// products in any order errs by (n + 4) u of the sum of absolute values, 4 for what is multiplied
// on the way in or out (scale, gate, normalisation). So tolerances follow from sizes.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headwise/core/random.h"
#include "headwise/model/multi_head_attention.h"
#include "kernels/attention_bounds.h"

namespace headwise::tests {

struct Bounded {
  double x = 0, e = 0;

  Bounded() = default;
  Bounded(double value, double error = 0) : x(value), e(error) {}  // NOLINT: numbers are exact
};

inline double value_of(double a) { return a; }
inline double value_of(const Bounded& a) { return a.x; }

/// a[0] b[0] + a[1] b[1] + …, in whatever order the fast code takes.
template <class T>
class Sum;

template <>
class Sum<double> {
 public:
  void add(double a, double b = 1) { total_ += a * b; }
  double total() const { return total_; }

 private:
  double total_ = 0;
};

template <>
class Sum<Bounded> {
 public:
  void add(const Bounded& a, const Bounded& b = 1) {
    total_.x += a.x * b.x;
    total_.e += std::abs(a.x) * b.e + std::abs(b.x) * a.e + a.e * b.e;
    size_ += std::abs(a.x * b.x);
    ++terms_;
  }
  Bounded total() const { return {total_.x, total_.e + (terms_ + 4) * kUnit * size_}; }

 private:
  Bounded total_;
  double size_ = 0, terms_ = 0;
};

template <class T>
T product(const T& a, const T& b) {
  Sum<T> sum;
  sum.add(a, b);
  return sum.total();
}

inline double log_sum_exp(const std::vector<double>& scores) {
  double sum = 0;
  for (const double s : scores) sum += std::exp(s);
  return std::log(sum);
}

inline Bounded log_sum_exp(const std::vector<Bounded>& scores) {
  double sum = 0, error = 0;
  for (const Bounded& s : scores) {
    sum += std::exp(s.x);
    error = std::max(error, s.e);
  }
  const double terms = static_cast<double>(scores.size());
  return {std::log(sum), error + kUnit * (terms + kFunction + 2 * std::abs(std::log(sum)))};
}

inline double weight(double score, double lse) { return std::exp(score - lse); }
inline Bounded weight(const Bounded& score, const Bounded& lse) {
  const double p = std::exp(score.x - lse.x);
  const double rounding = kUnit * (4 * (std::abs(score.x) + std::abs(lse.x)) + kFunction);
  return {p, p * (std::expm1(score.e + lse.e) + rounding)};
}

template <class T>
struct Matrix {
  Matrix() = default;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(r * c) {}
  /// Of a view or a list of floats.
  Matrix(int64_t r, int64_t c, const float* from) : Matrix(r, c) {
    for (int64_t i = 0; i < r * c; ++i) values[i] = T(from[i]);
  }
  T& operator()(int64_t r, int64_t c) { return values[r * columns + c]; }
  const T& operator()(int64_t r, int64_t c) const { return values[r * columns + c]; }

  int64_t rows = 0, columns = 0;
  std::vector<T> values;
};

/// A layer with its inputs, filled from `seed`; numbers are in [-1, 1), weights divided by the root
/// of their inputs.
struct LayerProblem {
  MultiHeadAttentionConfig config;
  std::vector<int64_t> q_offsets = {0, 5, 6, 12};
  std::vector<int64_t> k_offsets;  // of the source; empty: self attention
  std::vector<int64_t> k_lengths;
  bool causal = false, rotary = false;
  std::vector<float> gates;  // [H] or empty

  std::vector<float> x, source, dout;
  std::optional<MultiHeadAttentionWeights> weights;

  /// Fills x, source, dout and weights.
  LayerProblem& draw(uint64_t seed);

  int64_t T() const { return q_offsets.back(); }
  int64_t S() const { return k_offsets.empty() ? T() : k_offsets.back(); }
  View<const float, 2> x_view() const { return {x.data(), {T(), config.width}}; }
  View<const float, 2> dout_view() const { return {dout.data(), {T(), config.width}}; }
  View<const float, 2> source_view() const {
    if (k_offsets.empty()) return {};
    return {source.data(), {S(), *config.source_width}};
  }
  Attention attention_params() const;
};

/// Rotates pairs (c, c + D/2) of every head of row t by angle(t's position in its sequence, c);
/// `direction` is 1 or -1.
double rotary_angle(int64_t position, int64_t pair);
void rotate(View<float, 3> rows, const std::vector<int64_t>& offsets, int direction);

/// What the layer gives: everything flat, gradients of weights in the order of the weights' memory.
struct LayerAnswers {
  std::vector<float> out, dx, dsource, dweights, dgates;
};
LayerAnswers solve(const MultiHeadAttention& layer, const LayerProblem& problem,
                   MultiHeadAttention::Pass& pass);
LayerAnswers solve(const LayerProblem& problem);

template <class T>
struct LayerReference {
  std::vector<T> out, dx, dsource, dweights, dgates;
};

/// The plain loops. `numbers` are x, source and the weights one after the other, so that finite
/// differences can move each.
std::vector<double> numbers_of(const LayerProblem& problem);
template <class T>
LayerReference<T> solve_ref(const LayerProblem& problem, const std::vector<double>& numbers);
extern template LayerReference<double> solve_ref<double>(const LayerProblem&,
                                                         const std::vector<double>&);
extern template LayerReference<Bounded> solve_ref<Bounded>(const LayerProblem&,
                                                           const std::vector<double>&);

/// Every number within its bound; says where not.
void expect_within(const std::string& what, const std::vector<float>& got,
                   const std::vector<Bounded>& expected);
void expect_within(const LayerAnswers& got, const LayerReference<Bounded>& expected);

}  // namespace headwise::tests
