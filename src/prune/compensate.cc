// Sums over the outputs of heads, and the normal equations.
//
// How much least squares may bend the projection is decided by how well what is fitted to one half
// of the texts does on the other: with few texts, or heads that say what no other does, that is
// little.
#include "prune/compensate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/linear_algebra.h"
#include "headwise/core/error.h"

namespace headwise {
namespace {

constexpr int64_t kBatchRows = 2048;
constexpr std::array kRidges = {1e-4, 1e-3, 1e-2, 1e-1, 1., 10.};

/// Sums over rows z [H Dv] of an attention.
struct OutputSums {
  int64_t rows = 0;
  std::vector<double> sum{};  // [n]
  DoubleMatrix products{};    // [n, n], or none

  void operator+=(const OutputSums& other) {
    rows += other.rows;
    sum.resize(std::max(sum.size(), other.sum.size()));
    for (size_t i = 0; i < other.sum.size(); ++i) sum[i] += other.sum[i];
    if (products.rows == 0) {
      products = other.products;
      return;
    }
    for (size_t i = 0; i < other.products.values.size(); ++i) {
      products.values[i] += other.products.values[i];
    }
  }
};
using Halves = std::array<OutputSums, 2>;

class OutputObserver : public ForwardObserver {
 public:
  OutputObserver(const Model& model, std::span<const float> gates, bool products)
      : products_(products) {
    for (const AttentionSite& site : model.attentions()) {
      const auto own = gates.subspan(site.first, site.heads.size());
      if (std::ranges::find(own, 0.f) != own.end()) sums_[site.name] = {};
    }
  }

  /// The next texts, so many, are observed.
  void advance(int64_t texts) {
    first_ += texts_;
    texts_ = texts;
  }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention&,
            View<float, 3> z, View<const float, 2>) override {
    const auto found = sums_.find(site.name);
    if (found == sums_.end()) return;
    const int64_t Dv = z.extent(2), n = z.extent(1) * Dv;
    for (int64_t half = 0; half < 2; ++half) {
      OutputSums some{.sum = std::vector<double>(n)};
      std::vector<double> rows;
      for (int64_t b = (first_ + half) % 2; b < texts_; b += 2) {
        for (int64_t t = attention.q_offsets[b]; t < attention.q_offsets[b + 1]; ++t) {
          for (int64_t i = 0; i < n; ++i) {
            some.sum[i] += z(t, i / Dv, i % Dv);
            if (products_) rows.push_back(z(t, i / Dv, i % Dv));
          }
          ++some.rows;
        }
      }
      if (products_) {
        DoubleMatrix matrix(some.rows, n);
        matrix.values = std::move(rows);
        some.products = transposed_product(matrix, matrix);
      }
      found->second[half] += some;
    }
  }

  /// Null: no head of the attention is dropped.
  const Halves* of(const AttentionSite& site) const {
    const auto found = sums_.find(site.name);
    return found == sums_.end() ? nullptr : &found->second;
  }

 private:
  bool products_;
  int64_t first_ = 0, texts_ = 0;  // of the batch: texts before it, and in it
  std::map<std::string, Halves> sums_;
};

/// The columns of the output projection of dropped and of kept heads.
struct Columns {
  std::vector<int64_t> kept{}, dropped{};
};

Columns columns_of(std::span<const float> gates, int64_t width) {
  Columns columns;
  for (int64_t i = 0; i < std::ssize(gates) * width; ++i) {
    (gates[i / width] == 0 ? columns.dropped : columns.kept).push_back(i);
  }
  return columns;
}

/// Products of the outputs of kept and dropped heads, of their deviations from the means if there
/// is a bias that has the rest.
struct Products {
  DoubleMatrix kept{}, mixed{}, dropped{};  // [kept, kept], [kept, dropped], [dropped, dropped]
  double squares = 0;                       // the mean of those of a kept output
};

Products products_of(const OutputSums& sums, const Columns& columns, bool centred) {
  const auto part = [&](const std::vector<int64_t>& of, const std::vector<int64_t>& with) {
    DoubleMatrix result(std::ssize(of), std::ssize(with));
    for (int64_t i = 0; i < result.rows; ++i) {
      for (int64_t j = 0; j < result.columns; ++j) {
        const double mean = sums.sum[of[i]] * sums.sum[with[j]] / static_cast<double>(sums.rows);
        result(i, j) = sums.products(of[i], with[j]) - (centred ? mean : 0);
      }
    }
    return result;
  };
  Products products{.kept = part(columns.kept, columns.kept),
                    .mixed = part(columns.kept, columns.dropped),
                    .dropped = part(columns.dropped, columns.dropped)};
  for (const int64_t i : columns.kept) products.squares += sums.products(i, i);
  products.squares /= static_cast<double>(columns.kept.size());
  return products;
}

/// [kept, C]: what to add to the output projection of the kept heads, so that they say what the
/// dropped ones said through `lost` [dropped, C].
DoubleMatrix least_squares(const Products& products, const DoubleMatrix& lost, double ridge) {
  if (products.squares == 0) return DoubleMatrix(products.kept.rows, lost.columns);
  DoubleMatrix square = products.kept;
  for (int64_t i = 0; i < square.rows; ++i) square(i, i) += ridge * products.squares;
  return solve_positive(square, product(products.mixed, lost));
}

/// Squares of what is still missing.
double missing(const Products& products, const DoubleMatrix& lost, const DoubleMatrix& added) {
  return inner_product(lost, product(products.dropped, lost)) -
         2 * inner_product(added, product(products.mixed, lost)) +
         inner_product(added, product(products.kept, added));
}

/// The ridge that does best on the half that it was not fitted to; none if nothing helps there.
std::optional<double> chosen_ridge(const Halves& halves, const Columns& columns,
                                   const DoubleMatrix& lost, bool centred) {
  if (halves[0].rows == 0 || halves[1].rows == 0) return std::nullopt;
  const std::array products = {products_of(halves[0], columns, centred),
                               products_of(halves[1], columns, centred)};
  const DoubleMatrix nothing(products[0].kept.rows, lost.columns);
  double least = missing(products[0], lost, nothing) + missing(products[1], lost, nothing);
  std::optional<double> best;
  for (const double ridge : kRidges) {
    const double error = missing(products[1], lost, least_squares(products[0], lost, ridge)) +
                         missing(products[0], lost, least_squares(products[1], lost, ridge));
    if (error < least) {
      least = error;
      best = ridge;
    }
  }
  return best;
}

Correction correct(const MultiHeadAttentionWeights& weights, const Halves& halves,
                   std::span<const float> gates, const PruneOptions& options) {
  OutputSums sums = halves[0];
  sums += halves[1];
  const View<const float, 2> output = weights.output();
  const View<const float, 1> bias = weights.output_bias();
  const int64_t C = output.extent(0), n = output.extent(1);
  const bool has_bias = bias.data() != nullptr;
  const Columns columns = columns_of(gates, weights.shape().Dv);
  DoubleMatrix added(std::ssize(columns.kept), C);
  Correction correction;
  if (options.compensate == Compensation::least_squares && !columns.kept.empty()) {
    DoubleMatrix lost(std::ssize(columns.dropped), C);
    for (int64_t j = 0; j < lost.rows; ++j) {
      for (int64_t c = 0; c < C; ++c) lost(j, c) = output(c, columns.dropped[j]);
    }
    const std::optional<double> ridge =
        options.ridge ? options.ridge : chosen_ridge(halves, columns, lost, has_bias);
    if (ridge) added = least_squares(products_of(sums, columns, has_bias), lost, *ridge);
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t i = 0; i < n; ++i) correction.output.push_back(output(c, i));
      for (int64_t k = 0; k < added.rows; ++k) {
        correction.output[c * n + columns.kept[k]] += static_cast<float>(added(k, c));
      }
    }
  }
  for (int64_t c = 0; has_bias && c < C; ++c) {
    double lost = 0;
    for (const int64_t i : columns.dropped) lost += sums.sum[i] * double{output(c, i)};
    for (int64_t k = 0; k < added.rows; ++k) lost -= sums.sum[columns.kept[k]] * added(k, c);
    correction.bias.push_back(
        static_cast<float>(double{bias(c)} + lost / static_cast<double>(sums.rows)));
  }
  return correction;
}

}  // namespace

std::vector<Correction> compensate(const Model& model, std::span<const float> gates,
                                   const PruneOptions& options) {
  const bool least = options.compensate == Compensation::least_squares;
  if (!least && !model.config().output_bias) {
    throw Error({.what = "the mean of dropped heads has no bias to go to",
                 .where = "compensate",
                 .got = fmt::format("{} without output biases", model.config().model_type),
                 .expected = "none or least_squares",
                 .hint = "least_squares changes the output projection of the kept heads"});
  }
  if (options.source.rows() == 0) {
    throw Error({.what = "what dropped heads say is measured on texts, and there are none",
                 .where = "compensate",
                 .expected = "texts as the model will see them"});
  }
  OutputObserver observer(model, gates, least);
  for_each_batch(options.source, options.target, kBatchRows,
                 [&](const TokenBatch& source, const TokenBatch& target) {
                   if (options.progress) options.progress("compensation", 0, 1);
                   observer.advance(source.sequences());
                   const ForwardOptions params{.observer = &observer};
                   target.sequences() > 0 ? model.forward(source, target, params)
                                          : model.forward(source, params);
                 });
  std::vector<Correction> corrections(model.attentions().size());
  for (size_t i = 0; i < corrections.size(); ++i) {
    const AttentionSite& site = model.attentions()[i];
    const Halves* const halves = observer.of(site);
    if (halves == nullptr || (*halves)[0].rows == 0) continue;
    corrections[i] = correct(*model.layer(static_cast<int64_t>(i)).weights(), *halves,
                             gates.subspan(site.first, site.heads.size()), options);
  }
  return corrections;
}

}  // namespace headwise
