// contribution_norm and constancy: how much a head adds to the residual stream, and whether it
// always adds the same.
//
// A contribution is c = W z, W [C, Dv] being the head's part of the output projection. Its length
// needs only the Dv x Dv matrix L with L L' = W' W: |c| = |L' z|.
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/linear_algebra.h"
#include "headwise/core/buffer.h"
#include "headwise/core/parallel.h"
#include "headwise/kernels/gemm.h"
#include "headwise/kernels/sum_of_squares.h"
#include "observe/head_metric.h"

namespace headwise {
namespace {

constexpr int64_t kPanelRows = 128;  // that one thread works on, and whose sums are added in order

/// L' of W' W = L L', by Cholesky's method; columns that depend on earlier ones become 0.
std::vector<float> length_factor(const DoubleMatrix& w) {
  const int64_t Dv = w.columns;
  const DoubleMatrix gram = transposed_product(w, w);
  DoubleMatrix lower(Dv, Dv);
  for (int64_t j = 0; j < Dv; ++j) {
    const auto rest = [&](int64_t i) {
      double sum = gram(i, j);
      for (int64_t k = 0; k < j; ++k) sum -= lower(i, k) * lower(j, k);
      return sum;
    };
    const double square = rest(j);
    if (square <= 1e-14 * gram(j, j)) continue;
    const double pivot = std::sqrt(square);
    for (int64_t i = j; i < Dv; ++i) lower(i, j) = rest(i) / pivot;
  }
  std::vector<float> result(Dv * Dv);
  for (int64_t i = 0; i < Dv; ++i) {
    for (int64_t j = 0; j <= i; ++j) result[j * Dv + i] = static_cast<float>(lower(i, j));
  }
  return result;
}

class Contributions : public HeadMetric {
 public:
  explicit Contributions(const MetricContext& context) : sums_(context.model.heads()) {}

  bool wants_attn_out() const override { return true; }

  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention& layer,
            View<const float, 3> z, View<const float, 2>) override {
    Site& state = prepare(site, layer);
    const int64_t T = z.extent(0), H = z.extent(1), Dv = z.extent(2);
    lengths_.resize(T * H);
    float* const projected = projected_.at_least(T * Dv);
    std::vector<float> means(panels(T) * H * Dv);
    parallel_panels(T, kPanelRows, [&](int64_t begin, int64_t end) {
      const int64_t rows = end - begin;
      for (int64_t h = 0; h < H; ++h) {
        const View<const float, 2> of_head(&z(begin, h, 0), {rows, Dv}, {z.stride(0), z.stride(2)});
        const View<float, 2> room(projected + begin * Dv, {rows, Dv});
        linear(of_head, state.factors[h], room);
        for (int64_t t = 0; t < rows; ++t) {
          lengths_[(begin + t) * H + h] =
              sum_of_squares(std::span(&room(t, 0), static_cast<size_t>(Dv)));
        }
      }
      // The heads of a row lie one behind the other.
      sum_rows({&z(begin, 0, 0), {rows, H * Dv}, {z.stride(0), 1}},
               {&means[begin / kPanelRows * H * Dv], {H * Dv}});
    });
    for (size_t i = 0; i < means.size(); ++i) state.mean[i % (H * Dv)] += means[i];
    for (int64_t t = 0; t < T; ++t) {
      for (int64_t h = 0; h < H; ++h) sums_[site.first + h].squares += lengths_[t * H + h];
    }
    for (int64_t h = 0; h < H; ++h) sums_[site.first + h].rows += T;
  }

  void on_attn_out(const AttentionSite& site, View<const float, 2> rows) override {
    const int64_t T = rows.extent(0), H = std::ssize(site.heads);
    std::vector<RunningMean> shares(panels(T) * H);
    parallel_panels(T, kPanelRows, [&](int64_t begin, int64_t end) {
      RunningMean* const of_panel = &shares[begin / kPanelRows * H];
      for (int64_t t = begin; t < end; ++t) {
        const double whole =
            sum_of_squares(std::span(&rows(t, 0), static_cast<size_t>(rows.extent(1))));
        if (!(whole > 0)) continue;
        const double inverse = 1 / std::sqrt(whole);
        for (int64_t h = 0; h < H; ++h) {
          of_panel[h] += {std::sqrt(lengths_[t * H + h]) * inverse, 1};
        }
      }
    });
    for (size_t i = 0; i < shares.size(); ++i) sums_[site.first + i % H].share += shares[i];
  }

  void finish(std::span<Measures> heads, Evidence&) override {
    for (const auto& [first, site] : sites_) {
      for (int64_t h = 0; h < std::ssize(site.factors); ++h) {
        const Sums& sums = sums_[first + h];
        Measures& head = heads[first + h];
        head.add("contribution_norm", {.value = sums.share.mean(), .n = sums.share.n});
        head.add("constancy", {.value = constancy(site, h, sums), .n = sums.rows});
      }
    }
  }

 private:
  struct Site {
    std::vector<PackedWeights> factors{};  // per head
    std::vector<double> mean{};            // [H, Dv]: sums of z
  };
  struct Sums {
    RunningMean share{};
    double squares = 0;  // of contributions
    int64_t rows = 0;
  };

  static int64_t panels(int64_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }

  Site& prepare(const AttentionSite& site, const MultiHeadAttention& layer) {
    Site& state = sites_[site.first];
    if (!state.factors.empty()) return state;
    const MultiHeadAttentionShape& s = layer.shape();
    const auto weights = layer.weights();
    const View<const float, 2> output = weights->output();  // [C, H Dv]
    state.mean.resize(s.H * s.Dv);
    state.factors.resize(s.H);
    parallel_for(s.H, [&](int64_t h) {
      const View<const float, 2> of_head(output.data() + h * s.Dv, {output.extent(0), s.Dv},
                                         output.strides());
      const std::vector<float> factor = length_factor(DoubleMatrix(of_head));
      state.factors[h] = PackedWeights(View<const float, 2>(factor.data(), {s.Dv, s.Dv}));
    });
    return state;
  }

  /// |L' mean z|^2 / mean |c|^2
  static double constancy(const Site& site, int64_t head, const Sums& sums) {
    const int64_t Dv = site.factors[head].inputs();
    const auto rows = static_cast<double>(sums.rows);
    std::vector<float> mean(Dv), projected(Dv);
    for (int64_t d = 0; d < Dv; ++d) {
      mean[d] = static_cast<float>(site.mean[head * Dv + d] / rows);
    }
    linear({mean.data(), {1, Dv}}, site.factors[head], {projected.data(), {1, Dv}});
    return sum_of_squares(projected) * rows / sums.squares;
  }

  std::map<int64_t, Site> sites_;  // by AttentionSite::first
  std::vector<Sums> sums_;         // [heads of the model]
  std::vector<double> lengths_;    // [T, H] squared, of the attention at hand
  Buffer projected_;
};

}  // namespace

std::unique_ptr<HeadMetric> contributions_metric(const MetricContext& context) {
  return std::make_unique<Contributions>(context);
}

}  // namespace headwise
