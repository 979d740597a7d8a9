// output_cka: how alike what two heads add to the residual stream is, up to rotation and scale.
// See output_cka.h.
#include <algorithm>
#include <map>

#include "headwise/core/parallel.h"
#include "headwise/kernels/gemm.h"
#include "observe/head_metric.h"
#include "observe/output_cka.h"

namespace headwise {
namespace {

/// Rows whose products are formed in float before they are added in double.
constexpr int64_t kRowsAtOnce = 256;

/// Sums over the rows of one attention. Rows are taken relative to the mean of the first ones,
/// since a mean far larger than the differences would leave nothing of them in float.
class OutputSums {
 public:
  OutputSums(const AttentionSite& site, const MultiHeadAttention& layer)
      : site_(site),
        layer_(layer),
        width_(layer.shape().H * layer.shape().Dv),
        reference_(Buffer::zeros(width_)),
        sums_(width_),
        products_(width_ * width_) {}

  void add(View<const float, 3> z) {
    const int64_t T = z.extent(0);
    if (rows_ == 0) set_reference(z);
    for (int64_t begin = 0; begin < T; begin += kRowsAtOnce) {
      add_few(z.rows(begin, std::min(T, begin + kRowsAtOnce)));
    }
    rows_ += T;
  }

  PairMatrix similarities() const {
    std::vector<std::string> names;
    for (int64_t h = 0; h < H(); ++h) names.push_back(site_.head_name(h));
    PairMatrix matrix = pair_matrix(names);
    std::vector<DoubleMatrix> grams(H());
    const auto weights = layer_.weights();
    parallel_for(H(), [&](int64_t h) { grams[h] = output_gram(*weights, h); });
    parallel_for(H(), [&](int64_t a) {
      for (int64_t b = a; b < H(); ++b) {
        matrix.at(a, b) = shared_squares(grams[a], covariance(a, b), grams[b]);
      }
    });
    std::vector<double> own;
    for (int64_t a = 0; a < H(); ++a) own.push_back(matrix.at(a, a));
    for (int64_t a = 0; a < H(); ++a) {
      for (int64_t b = a; b < H(); ++b) {
        const double value = a == b ? own[a] / own[a] : output_cka(matrix.at(a, b), own[a], own[b]);
        matrix.at(a, b) = matrix.at(b, a) = value;
      }
    }
    return matrix;
  }

 private:
  int64_t H() const { return layer_.shape().H; }
  int64_t Dv() const { return layer_.shape().Dv; }

  void set_reference(View<const float, 3> z) {
    parallel_for(H(), [&](int64_t h) {
      for (int64_t c = 0; c < Dv(); ++c) {
        double sum = 0;
        for (int64_t t = 0; t < z.extent(0); ++t) sum += z(t, h, c);
        reference_[h * Dv() + c] = static_cast<float>(sum / static_cast<double>(z.extent(0)));
      }
    });
  }

  void add_few(View<const float, 3> z) {
    const int64_t T = z.extent(0);
    const View<float, 2> x(rows_buffer_.at_least(T * width_), {T, width_});
    parallel_for(H(), [&](int64_t h) {
      for (int64_t t = 0; t < T; ++t) {
        for (int64_t c = 0; c < Dv(); ++c) {
          const int64_t at = h * Dv() + c;
          x(t, at) = z(t, h, c) - reference_[at];
          sums_[at] += x(t, at);
        }
      }
    });
    const View<float, 2> few(product_buffer_.at_least(width_ * width_), {width_, width_});
    gemm(transposed(View<const float, 2>(x)), x, few);
    parallel_panels(width_, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * width_; i < end * width_; ++i) products_[i] += few.data()[i];
    });
  }

  /// S_ab, not divided by the number of rows.
  DoubleMatrix covariance(int64_t a, int64_t b) const {
    DoubleMatrix s(Dv(), Dv());
    for (int64_t i = 0; i < Dv(); ++i) {
      for (int64_t j = 0; j < Dv(); ++j) {
        const int64_t x = a * Dv() + i, y = b * Dv() + j;
        s(i, j) = products_[x * width_ + y] - sums_[x] * sums_[y] / static_cast<double>(rows_);
      }
    }
    return s;
  }

  const AttentionSite& site_;
  const MultiHeadAttention& layer_;
  int64_t width_, rows_ = 0;
  Buffer reference_;
  std::vector<double> sums_, products_;  // of rows less the reference: [H Dv], [H Dv, H Dv]
  Buffer rows_buffer_, product_buffer_;
};

class Similarity : public HeadMetric {
 public:
  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention& layer,
            View<const float, 3> z, View<const float, 2>) override {
    if (z.empty()) return;
    sums_.try_emplace(site.name, site, layer).first->second.add(z);
  }

  void finish(std::span<Measures>, Evidence& evidence) override {
    for (const auto& [name, sums] : sums_) evidence.pairs["output_cka"][name] = sums.similarities();
  }

 private:
  std::map<std::string, OutputSums> sums_;  // by the name of the layer
};

}  // namespace

std::unique_ptr<HeadMetric> similarity_metric(const MetricContext&) {
  return std::make_unique<Similarity>();
}

}  // namespace headwise
