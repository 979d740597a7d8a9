// The plain loops of multi-head attention, and what tests of the layer share.
#include "model/multi_head_attention_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace headwise::tests {
namespace {

/// y = x W' + b; b may have no columns.
template <class T>
Matrix<T> affine(const Matrix<T>& x, const Matrix<T>& weights, const Matrix<T>& bias) {
  Matrix<T> y(x.rows, weights.rows);
  for (int64_t t = 0; t < y.rows; ++t) {
    for (int64_t n = 0; n < y.columns; ++n) {
      Sum<T> sum;
      for (int64_t c = 0; c < x.columns; ++c) sum.add(x(t, c), weights(n, c));
      if (bias.columns > 0) sum.add(bias(0, n));
      y(t, n) = sum.total();
    }
  }
  return y;
}

template <class T>
void append(std::vector<T>& to, const Matrix<T>& dy_transposed_x) {
  to.insert(to.end(), dy_transposed_x.values.begin(), dy_transposed_x.values.end());
}

/// dW = dy' x.
template <class T>
Matrix<T> weight_gradient(const Matrix<T>& dy, const Matrix<T>& x) {
  Matrix<T> dw(dy.columns, x.columns);
  for (int64_t n = 0; n < dw.rows; ++n) {
    for (int64_t c = 0; c < dw.columns; ++c) {
      Sum<T> sum;
      for (int64_t t = 0; t < x.rows; ++t) sum.add(dy(t, n), x(t, c));
      dw(n, c) = sum.total();
    }
  }
  return dw;
}

template <class T>
Matrix<T> bias_gradient(const Matrix<T>& dy, bool wanted) {
  Matrix<T> ones(dy.rows, wanted ? 1 : 0);
  std::fill(ones.values.begin(), ones.values.end(), T(1));
  return weight_gradient(dy, ones);
}

template <class T>
void rotate(Matrix<T>& rows, int64_t heads, const std::vector<int64_t>& offsets, int direction) {
  const int64_t width = heads == 0 ? 0 : rows.columns / heads, half = width / 2;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    for (int64_t t = offsets[b]; t < offsets[b + 1]; ++t) {
      for (int64_t i = 0; i < heads * half; ++i) {
        const double angle = rotary_angle(t - offsets[b], i % half);
        const T cosine = T(static_cast<float>(std::cos(angle)));
        const T sine = T(static_cast<float>(direction * std::sin(angle)));
        const T minus_sine = T(-value_of(sine));
        T& low = rows(t, i / half * width + i % half);
        T& high = rows(t, i / half * width + i % half + half);
        Sum<T> new_low, new_high;
        new_low.add(low, cosine);
        new_low.add(high, minus_sine);
        new_high.add(low, sine);
        new_high.add(high, cosine);
        low = new_low.total();
        high = new_high.total();
      }
    }
  }
}

template <class T>
class Loops {
 public:
  Loops(const LayerProblem& problem, const std::vector<double>& numbers)
      : problem_(problem), s_(problem.weights->shape()), numbers_(numbers) {
    k_offsets_ = problem.k_offsets.empty() ? problem.q_offsets : problem.k_offsets;
  }

  LayerReference<T> run() {
    read();
    forward();
    backward();
    return std::move(answers_);
  }

 private:
  Matrix<T> next(int64_t rows, int64_t columns) {
    Matrix<T> m(rows, columns);
    for (T& x : m.values) x = T(numbers_[at_++]);
    return m;
  }

  void read() {
    const int64_t bias = s_.projection_bias ? 1 : 0;
    x_ = next(problem_.T(), s_.C);
    source_ = s_.cross ? next(problem_.S(), s_.Cs) : x_;
    const int64_t queries = learned() * s_.D, keys = s_.key_heads * s_.D;
    wq_ = next(queries, s_.C);
    wk_ = next(keys, s_.Cs);
    wv_ = next(s_.K * s_.Dv, s_.Cs);
    wo_ = next(s_.C, s_.H * s_.Dv);
    bq_ = next(1, bias * queries);
    bk_ = next(1, bias * keys);
    bv_ = next(1, bias * s_.K * s_.Dv);
    bo_ = next(1, s_.output_bias ? s_.C : 0);
  }

  void forward() {
    q_ = affine(x_, wq_, bq_);
    k_ = affine(source_, wk_, bk_);
    v_ = affine(source_, wv_, bv_);
    if (problem_.rotary) {
      rotate(q_, learned(), problem_.q_offsets, 1);
      rotate(k_, s_.key_heads, k_offsets_, 1);
    }
    z_ = Matrix<T>(problem_.T(), s_.H * s_.Dv);
    each_row([&](const Row& row, const std::vector<T>& p) {
      for (int64_t d = 0; d < s_.Dv; ++d) {
        Sum<T> sum;
        for (int64_t j = 0; j < row.keys; ++j) sum.add(p[j], v_(row.first_key + j, v_at(row, d)));
        z_(row.t, row.h * s_.Dv + d) = product(sum.total(), T(gate(row.h)));
      }
    });
    answers_.out = affine(z_, wo_, bo_).values;
  }

  void backward() {
    const Matrix<T> dout(problem_.T(), s_.C, problem_.dout.data());
    Matrix<T> transposed_wo(wo_.columns, wo_.rows);
    for (int64_t i = 0; i < wo_.rows; ++i) {
      for (int64_t j = 0; j < wo_.columns; ++j) transposed_wo(j, i) = wo_(i, j);
    }
    const Matrix<T> dz = affine(dout, transposed_wo, {});
    attention_backward(dz);
    if (problem_.rotary) {
      rotate(dq_, learned(), problem_.q_offsets, -1);
      rotate(dk_, s_.key_heads, k_offsets_, -1);
    }
    std::vector<T>& dw = answers_.dweights;
    append(dw, weight_gradient(dq_, x_));
    append(dw, weight_gradient(dk_, source_));
    append(dw, weight_gradient(dv_, source_));
    append(dw, weight_gradient(dout, z_));
    append(dw, bias_gradient(dq_, s_.projection_bias));
    append(dw, bias_gradient(dk_, s_.projection_bias));
    append(dw, bias_gradient(dv_, s_.projection_bias));
    append(dw, bias_gradient(dout, s_.output_bias));
    input_gradients();
  }

  void attention_backward(const Matrix<T>& dz) {
    Matrix<Sum<T>> dq(q_.rows, q_.columns), dk(k_.rows, k_.columns), dv(v_.rows, v_.columns);
    std::vector<Sum<T>> dgates(problem_.gates.size());
    each_row([&](const Row& row, const std::vector<T>& p) {
      Sum<T> delta;
      for (int64_t d = 0; d < s_.Dv; ++d) {
        delta.add(dz(row.t, row.h * s_.Dv + d), z_(row.t, row.h * s_.Dv + d));
      }
      const double g = gate(row.h);
      if (!dgates.empty() && g != 0) dgates[row.h].add(delta.total(), T(1 / g));
      for (int64_t j = 0; j < row.keys; ++j) {
        const int64_t key = row.first_key + j;
        Sum<T> dp;
        for (int64_t d = 0; d < s_.Dv; ++d) {
          const T gated = product(dz(row.t, row.h * s_.Dv + d), T(g));
          dp.add(gated, v_(key, v_at(row, d)));
          dv(key, v_at(row, d)).add(gated, p[j]);
        }
        Sum<T> difference;
        difference.add(dp.total());
        difference.add(delta.total(), T(-1));
        if (row.h >= learned()) continue;
        const T ds = product(product(p[j], difference.total()), T(scale()));
        for (int64_t d = 0; d < s_.D; ++d) {
          dq(row.t, row.h * s_.D + d).add(ds, k_(key, k_at(row, d)));
          dk(key, k_at(row, d)).add(ds, q_(row.t, row.h * s_.D + d));
        }
      }
    });
    const auto totals = [](const Matrix<Sum<T>>& sums) {
      Matrix<T> all(sums.rows, sums.columns);
      for (size_t i = 0; i < all.values.size(); ++i) all.values[i] = sums.values[i].total();
      return all;
    };
    dq_ = totals(dq);
    dk_ = totals(dk);
    dv_ = totals(dv);
    for (const Sum<T>& sum : dgates) answers_.dgates.push_back(sum.total());
  }

  void input_gradients() {
    Matrix<Sum<T>> dx(x_.rows, x_.columns), dsource(source_.rows, s_.cross ? s_.Cs : 0);
    const auto add = [](Matrix<Sum<T>>& to, const Matrix<T>& dy, const Matrix<T>& weights) {
      for (int64_t t = 0; t < to.rows; ++t) {
        for (int64_t c = 0; c < to.columns; ++c) {
          for (int64_t n = 0; n < dy.columns; ++n) to(t, c).add(dy(t, n), weights(n, c));
        }
      }
    };
    Matrix<Sum<T>>& of_source = s_.cross ? dsource : dx;
    add(dx, dq_, wq_);
    add(of_source, dk_, wk_);
    add(of_source, dv_, wv_);
    for (const Sum<T>& sum : dx.values) answers_.dx.push_back(sum.total());
    for (const Sum<T>& sum : dsource.values) answers_.dsource.push_back(sum.total());
  }

  struct Row {
    int64_t t, h, kv, first_key, keys;
  };

  /// Calls work(row, its weights) for every row and head that sees a key.
  template <class Work>
  void each_row(const Work& work) {
    for (size_t b = 0; b + 1 < k_offsets_.size(); ++b) {
      const int64_t first = problem_.q_offsets[b], rows = problem_.q_offsets[b + 1] - first;
      const int64_t keys = k_offsets_[b + 1] - k_offsets_[b];
      const int64_t real = problem_.k_lengths.empty() ? keys : problem_.k_lengths[b];
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t seen = problem_.causal ? std::min(real, i + keys - rows + 1) : real;
        for (int64_t h = 0; h < s_.H; ++h) {
          const int64_t kv = s_.kv_head.empty() ? h * s_.K / s_.H : s_.kv_head[h];
          const auto [begin, end] = keys_of(h, i + keys - rows, std::max<int64_t>(seen, 0));
          const Row row{first + i, h, kv, k_offsets_[b] + begin, end - begin};
          if (row.keys > 0) work(row, weights_of(row));
        }
      }
    }
  }

  /// The first key and the end of those that head h of a row at this position sees of [0, seen).
  std::pair<int64_t, int64_t> keys_of(int64_t h, int64_t position, int64_t seen) const {
    if (h < learned()) return {0, seen};
    const FixedPattern& pattern = s_.fixed[h - learned()];
    const auto within = [&](int64_t begin, int64_t end) {
      return std::pair(std::max<int64_t>(begin, 0), std::min(end, seen));
    };
    switch (pattern.kind) {
      case FixedPattern::Kind::previous:
        return within(position - 1, position);
      case FixedPattern::Kind::next:
        return within(position + 1, position + 2);
      case FixedPattern::Kind::first:
        return within(0, 1);
      case FixedPattern::Kind::window:
        return problem_.causal ? within(position - pattern.size + 1, position + 1)
                               : within(position - pattern.size / 2,
                                        position - pattern.size / 2 + pattern.size);
    }
    return {0, 0};
  }

  std::vector<T> weights_of(const Row& row) const {
    if (row.h >= learned()) {
      std::vector<T> p(row.keys, T(0));
      const T lse = log_sum_exp(p);
      for (T& score : p) score = weight(score, lse);
      return p;
    }
    std::vector<T> p;
    for (int64_t j = 0; j < row.keys; ++j) {
      Sum<T> dot;
      for (int64_t d = 0; d < s_.D; ++d) {
        dot.add(q_(row.t, row.h * s_.D + d), k_(row.first_key + j, k_at(row, d)));
      }
      p.push_back(product(dot.total(), T(scale())));
    }
    const T lse = log_sum_exp(p);
    for (T& score : p) score = weight(score, lse);
    return p;
  }

  int64_t learned() const { return s_.H - std::ssize(s_.fixed); }
  int64_t k_at(const Row& row, int64_t d) const { return row.kv * s_.D + d; }
  int64_t v_at(const Row& row, int64_t d) const { return row.kv * s_.Dv + d; }
  double scale() const { return 1 / std::sqrt(static_cast<double>(s_.D)); }
  double gate(int64_t h) const { return problem_.gates.empty() ? 1.0 : problem_.gates[h]; }

  const LayerProblem& problem_;
  const MultiHeadAttentionShape& s_;
  const std::vector<double>& numbers_;
  std::vector<int64_t> k_offsets_;
  size_t at_ = 0;
  Matrix<T> x_, source_, wq_, wk_, wv_, wo_, bq_, bk_, bv_, bo_, q_, k_, v_, z_, dq_, dk_, dv_;
  LayerReference<T> answers_;
};

}  // namespace

LayerProblem& LayerProblem::draw(uint64_t seed) {
  Random random(seed);
  const auto fill = [&](auto&& to, double size) {
    for (float& value : to) value = static_cast<float>(size * (2 * random.uniform() - 1));
  };
  weights.emplace(config);
  const MultiHeadAttentionShape& s = weights->shape();
  x.resize(T() * s.C);
  source.resize(s.cross ? S() * s.Cs : 0);
  dout.resize(T() * s.C);
  fill(x, 1);
  fill(source, 1);
  fill(dout, 1);
  // Uniform numbers have a variance of 1/3: with 3 the scores are of the order of 1.
  fill(weights->all(), 3 / std::sqrt(static_cast<double>(s.C)));
  return *this;
}

Attention LayerProblem::attention_params() const {
  Attention params{.q_offsets = q_offsets, .k_offsets = k_offsets, .k_lengths = k_lengths};
  params.mask.causal = causal;
  if (!gates.empty()) params.gates = {gates.data(), {1, static_cast<int64_t>(gates.size())}};
  return params;
}

double rotary_angle(int64_t position, int64_t pair) {
  return static_cast<double>(position) / (1.0 + static_cast<double>(pair));
}

void rotate(View<float, 3> rows, const std::vector<int64_t>& offsets, int direction) {
  const int64_t half = rows.extent(2) / 2;
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    for (int64_t t = offsets[b]; t < offsets[b + 1]; ++t) {
      for (int64_t i = 0; i < rows.extent(1) * half; ++i) {
        float& low = rows(t, i / half, i % half);
        float& high = rows(t, i / half, i % half + half);
        const double angle = rotary_angle(t - offsets[b], i % half);
        const float cosine = static_cast<float>(std::cos(angle));
        const float sine = static_cast<float>(direction * std::sin(angle));
        const float rotated = low * cosine - high * sine;
        high = low * sine + high * cosine;
        low = rotated;
      }
    }
  }
}

LayerAnswers solve(const MultiHeadAttention& layer, const LayerProblem& problem,
                   MultiHeadAttention::Pass& pass) {
  const MultiHeadAttentionShape& s = layer.shape();
  const int64_t T = problem.T(), S = problem.S();
  LayerAnswers a;
  a.out.resize(T * s.C);
  a.dx.resize(T * s.C);
  a.dsource.resize(s.cross ? S * s.Cs : 0);
  a.dgates.resize(problem.gates.size());
  const Attention params = problem.attention_params();
  const auto& k_offsets = problem.k_offsets.empty() ? problem.q_offsets : problem.k_offsets;
  const auto turn = [&](const View<float, 3>& q, const View<float, 3>& k, int direction) {
    if (!problem.rotary) return;
    rotate(q, problem.q_offsets, direction);
    rotate(k, k_offsets, direction);
  };
  layer.project(problem.x_view(), problem.source_view(), pass);
  turn(pass.q, pass.k, 1);
  layer.attend(params, pass);
  layer.output(pass, {a.out.data(), {T, s.C}});

  MultiHeadAttentionWeights gradients = layer.weights()->zeros();
  AttentionGradients more;
  if (!a.dgates.empty()) more.dgates = {a.dgates.data(), params.gates.shape()};
  MultiHeadAttention::InputGradients inputs{.dx = {a.dx.data(), {T, s.C}}};
  if (s.cross) inputs.dsource = {a.dsource.data(), {S, s.Cs}};
  layer.backward_output(problem.dout_view(), pass, {.to = &gradients});
  layer.backward_attend(params, pass, more);
  turn(pass.dq, pass.dk, -1);
  layer.backward_project(problem.x_view(), problem.source_view(), pass, inputs, {.to = &gradients});
  a.dweights.assign(gradients.all().begin(), gradients.all().end());
  return a;
}

LayerAnswers solve(const LayerProblem& problem) {
  using Storage = MultiHeadAttention::Storage;
  const auto solve_by = [&](Storage storage) {
    MultiHeadAttentionWeights weights = problem.weights->zeros();
    std::ranges::copy(problem.weights->all(), weights.all().begin());
    MultiHeadAttention::Pass pass;
    return solve(MultiHeadAttention(std::move(weights), storage), problem, pass);
  };
  LayerAnswers answers = solve_by(Storage::packed);
  EXPECT_EQ(solve_by(Storage::plain).out, answers.out);
  return answers;
}

std::vector<double> numbers_of(const LayerProblem& problem) {
  std::vector<double> numbers(problem.x.begin(), problem.x.end());
  numbers.insert(numbers.end(), problem.source.begin(), problem.source.end());
  numbers.insert(numbers.end(), problem.weights->all().begin(), problem.weights->all().end());
  return numbers;
}

template <class T>
LayerReference<T> solve_ref(const LayerProblem& problem, const std::vector<double>& numbers) {
  return Loops<T>(problem, numbers).run();
}
template LayerReference<double> solve_ref<double>(const LayerProblem&, const std::vector<double>&);
template LayerReference<Bounded> solve_ref<Bounded>(const LayerProblem&,
                                                    const std::vector<double>&);

void expect_within(const std::string& what, const std::vector<float>& got,
                   const std::vector<Bounded>& expected) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i].x, expected[i].e + kFlushed) << what << ' ' << i;
  }
}

void expect_within(const LayerAnswers& got, const LayerReference<Bounded>& expected) {
  expect_within("out", got.out, expected.out);
  expect_within("dx", got.dx, expected.dx);
  expect_within("dsource", got.dsource, expected.dsource);
  expect_within("dweights", got.dweights, expected.dweights);
  expect_within("dgates", got.dgates, expected.dgates);
}

}  // namespace headwise::tests
