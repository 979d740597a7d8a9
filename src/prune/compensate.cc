// Sums over the outputs of heads, and the normal equations.
#include "prune/compensate.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/linear_algebra.h"
#include "headwise/core/error.h"

namespace headwise {
namespace {

constexpr int64_t kBatchRows = 2048;

/// Sums over rows z [H Dv] of an attention.
struct OutputSums {
  int64_t rows = 0;
  std::vector<double> sum{};  // [n]
  DoubleMatrix products{};    // [n, n], or none
};

class OutputWatcher : public ForwardObserver {
 public:
  OutputWatcher(const Model& model, std::span<const float> gates, bool products)
      : products_(products) {
    for (const AttentionSite& site : model.attentions()) {
      const auto own = gates.subspan(site.first, site.heads.size());
      if (std::ranges::find(own, 0.f) != own.end()) sums_[site.name] = {};
    }
  }

  void attended(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
                View<float, 3> z, View<const float, 2>) override {
    const auto found = sums_.find(site.name);
    if (found == sums_.end()) return;
    OutputSums& sums = found->second;
    const int64_t T = z.extent(0), Dv = z.extent(2), n = z.extent(1) * Dv;
    DoubleMatrix rows(T, n);
    sums.sum.resize(n);
    for (int64_t t = 0; t < T; ++t) {
      for (int64_t i = 0; i < n; ++i) {
        rows(t, i) = z(t, i / Dv, i % Dv);
        sums.sum[i] += rows(t, i);
      }
    }
    sums.rows += T;
    if (!products_) return;
    const DoubleMatrix products = transposed_product(rows, rows);
    if (sums.products.rows == 0) sums.products = DoubleMatrix(n, n);
    for (size_t i = 0; i < products.values.size(); ++i) {
      sums.products.values[i] += products.values[i];
    }
  }

  /// Null: no head of the attention is dropped.
  const OutputSums* of(const AttentionSite& site) const {
    const auto found = sums_.find(site.name);
    return found == sums_.end() ? nullptr : &found->second;
  }

 private:
  bool products_;
  std::map<std::string, OutputSums> sums_;
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

/// [kept, C]: what to add to the output projection of the kept heads, so that they say what the
/// dropped ones said. Deviations from the means if there is a bias that has the rest.
DoubleMatrix least_squares(const OutputSums& sums, const Columns& columns,
                           View<const float, 2> output, bool centred, double ridge) {
  const auto kept = std::ssize(columns.kept), dropped = std::ssize(columns.dropped);
  const auto product = [&](int64_t i, int64_t j) {
    const double mean = centred ? sums.sum[i] * sums.sum[j] / static_cast<double>(sums.rows) : 0;
    return sums.products(i, j) - mean;
  };
  DoubleMatrix square(kept, kept), right(kept, dropped), lost(dropped, output.extent(0));
  double squares = 0;
  for (int64_t i = 0; i < kept; ++i) {
    for (int64_t j = 0; j < kept; ++j) square(i, j) = product(columns.kept[i], columns.kept[j]);
    for (int64_t j = 0; j < dropped; ++j) {
      right(i, j) = product(columns.kept[i], columns.dropped[j]);
    }
    squares += sums.products(columns.kept[i], columns.kept[i]);
  }
  for (int64_t j = 0; j < dropped; ++j) {
    for (int64_t c = 0; c < output.extent(0); ++c) lost(j, c) = output(c, columns.dropped[j]);
  }
  if (squares == 0) return DoubleMatrix(kept, output.extent(0));
  for (int64_t i = 0; i < kept; ++i) square(i, i) += ridge * squares / static_cast<double>(kept);
  return solve_positive(square, headwise::product(right, lost));
}

Correction correct(const MultiHeadAttentionWeights& weights, const OutputSums& sums,
                   std::span<const float> gates, const PruneOptions& options) {
  const View<const float, 2> output = weights.output();
  const View<const float, 1> bias = weights.output_bias();
  const int64_t C = output.extent(0), n = output.extent(1);
  const bool has_bias = bias.data() != nullptr;
  const Columns columns = columns_of(gates, weights.shape().Dv);
  DoubleMatrix added(std::ssize(columns.kept), C);
  Correction correction;
  if (options.compensate == Compensation::least_squares && !columns.kept.empty()) {
    added = least_squares(sums, columns, output, has_bias, options.ridge);
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
  OutputWatcher watcher(model, gates, least);
  for_each_batch(options.source, options.target, kBatchRows,
                 [&](const TokenBatch& source, const TokenBatch& target) {
                   if (options.progress) options.progress("compensation");
                   const ForwardOptions how{.observer = &watcher};
                   target.texts() > 0 ? model.hidden(source, target, how)
                                      : model.hidden(source, how);
                 });
  std::vector<Correction> corrections(model.attentions().size());
  for (size_t i = 0; i < corrections.size(); ++i) {
    const AttentionSite& site = model.attentions()[i];
    const OutputSums* const sums = watcher.of(site);
    if (sums == nullptr || sums->rows == 0) continue;
    corrections[i] = correct(model.layer(static_cast<int64_t>(i)).weights(), *sums,
                             gates.subspan(site.first, site.heads.size()), options);
  }
  return corrections;
}

}  // namespace headwise
