// Singular values of W_Q W_K' from the two Gram matrices of a head, by Jacobi's method.
#include "headwise/model/head_ranks.h"

#include <algorithm>
#include <cmath>

#include "headwise/core/parallel.h"

namespace headwise {
namespace {

/// A symmetric matrix [n, n], row by row.
struct Symmetric {
  int64_t n = 0;
  std::vector<double> values{};

  explicit Symmetric(int64_t size) : n(size), values(static_cast<size_t>(size * size)) {}
  double& operator()(int64_t i, int64_t j) { return values[static_cast<size_t>(i * n + j)]; }
  double operator()(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * n + j)]; }
};

/// rows rows', [D, D].
Symmetric gram(View<const float, 2> rows) {
  Symmetric result(rows.extent(0));
  for (int64_t i = 0; i < result.n; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t c = 0; c < rows.extent(1); ++c) sum += double{rows(i, c)} * rows(j, c);
      result(i, j) = result(j, i) = sum;
    }
  }
  return result;
}

/// Turns rows and columns p and q of `a` such that a(p, q) becomes 0; `turned` gets its rows turned
/// along.
void rotate(Symmetric& a, int64_t p, int64_t q, Symmetric* turned) {
  const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
  const double t = std::copysign(1., theta) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1), s = t * c;
  const auto turn = [&](double& x, double& y) {
    const double old = x;
    x = c * old - s * y;
    y = s * old + c * y;
  };
  for (int64_t i = 0; i < a.n; ++i) turn(a(p, i), a(q, i));
  for (int64_t i = 0; i < a.n; ++i) turn(a(i, p), a(i, q));
  if (turned == nullptr) return;
  for (int64_t i = 0; i < a.n; ++i) turn((*turned)(p, i), (*turned)(q, i));
}

/// Makes `a` diagonal; its eigenvectors become the rows of `vectors`, if there is one.
void diagonalise(Symmetric& a, Symmetric* vectors) {
  constexpr int kMostSweeps = 30;
  constexpr double kSmall = 1e-14;  // beside the whole matrix
  double all = 0;
  for (const double value : a.values) all += value * value;
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    double rest = 0;
    for (int64_t p = 0; p < a.n; ++p) {
      for (int64_t q = p + 1; q < a.n; ++q) rest += a(p, q) * a(p, q);
    }
    if (rest <= kSmall * kSmall * all) return;
    for (int64_t p = 0; p < a.n; ++p) {
      for (int64_t q = p + 1; q < a.n; ++q) {
        if (a(p, q) != 0) rotate(a, p, q, vectors);
      }
    }
  }
}

/// The squares of the singular values of A' B are the eigenvalues of S G_B S, where S S = G_A and G
/// are the Gram matrices of the rows of A and of B.
std::vector<double> singular_values(View<const float, 2> a, View<const float, 2> b) {
  const int64_t D = a.extent(0);
  Symmetric first = gram(a), vectors(D);
  for (int64_t i = 0; i < D; ++i) vectors(i, i) = 1;
  diagonalise(first, &vectors);
  const Symmetric second = gram(b);
  Symmetric half(D), product(D);  // vectors G_B, and scaled vectors G_B vectors'
  for (int64_t i = 0; i < D; ++i) {
    for (int64_t k = 0; k < D; ++k) {
      for (int64_t j = 0; j < D; ++j) half(i, j) += vectors(i, k) * second(k, j);
    }
  }
  const auto root = [&](int64_t i) { return std::sqrt(std::max(0., first(i, i))); };
  for (int64_t i = 0; i < D; ++i) {
    for (int64_t j = 0; j <= i; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < D; ++k) sum += half(i, k) * vectors(j, k);
      product(i, j) = product(j, i) = root(i) * sum * root(j);
    }
  }
  diagonalise(product, nullptr);
  std::vector<double> values;
  for (int64_t i = 0; i < D; ++i) values.push_back(std::sqrt(std::max(0., product(i, i))));
  return values;
}

double effective_rank(const std::vector<double>& values) {
  double sum = 0, entropy = 0;
  for (const double value : values) sum += value;
  if (sum == 0) return 0;
  for (const double value : values) {
    if (value > 0) entropy -= value / sum * std::log(value / sum);
  }
  return std::exp(entropy);
}

class RankObserver : public ForwardObserver {
 public:
  explicit RankObserver(int64_t heads) : ranks(static_cast<size_t>(heads)) {}

  void attended(const AttentionSite& site, const Attention&, const MultiHeadAttention& layer,
                View<float, 3>, View<const float, 2>) override {
    const MultiHeadAttentionShape& s = layer.shape();
    const View<const float, 2> query = layer.weights().query(), key = layer.weights().key();
    parallel_for(s.H, [&](int64_t head) {
      const int64_t kv = s.kv_of(head);
      ranks[site.first + head] = effective_rank(singular_values(
          query.rows(head * s.D, (head + 1) * s.D), key.rows(kv * s.D, (kv + 1) * s.D)));
    });
  }

  std::vector<double> ranks;
};

}  // namespace

std::vector<double> qk_ranks(const Model& model) {
  // Every attention is met on the way of one token.
  RankObserver observer(model.heads());
  TokenBatch token;
  token.add(std::vector<int32_t>{0});
  if (model.config().encoder_decoder()) {
    (void)model.hidden(token, token, {.observer = &observer});
  } else {
    (void)model.hidden(token, {.observer = &observer});
  }
  return observer.ranks;
}

}  // namespace headwise
