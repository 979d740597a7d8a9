// Runs the model once and compares what two of its heads attend to and what they output.
#include "headwise/observe/compare_heads.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "headwise/core/error.h"
#include "observe/data_pass.h"
#include "observe/kept_heads.h"
#include "observe/output_cka.h"

namespace headwise {
namespace {

/// Keeps the attention of one or two layers during a pass, and sums up products of two heads' z.
class TwoHeads : public ForwardObserver {
 public:
  TwoHeads(const Model& model, HeadIndex a, HeadIndex b)
      : heads_{a, b}, sites_{&model.attentions()[a.site], &model.attentions()[b.site]} {
    const auto widths = std::pair(sites_[0]->value_dim, sites_[1]->value_dim);
    for (const auto& [i, j] : kPairs) {
      products_[i + j] = DoubleMatrix(i == 0 ? widths.first : widths.second,
                                      j == 0 ? widths.first : widths.second);
    }
    sums_[0].resize(widths.first);
    sums_[1].resize(widths.second);
    count_ = std::ssize(sites_[0]->heads) + (same_layer() ? 0 : std::ssize(sites_[1]->heads));
    divergences_ = DivergenceSums(count_);
  }

  bool wants_hidden() const override { return false; }

  void on_z(const AttentionSite& site, const Attention& attention, const MultiHeadAttention& layer,
            View<float, 3> z, View<const float, 2> lse) override {
    for (const int i : {0, 1}) {
      if (site.name != sites_[i]->name) continue;
      z_[i] = DoubleMatrix(z.extent(0), z.extent(2));
      for (int64_t t = 0; t < z.extent(0); ++t) {
        for (int64_t c = 0; c < z.extent(2); ++c) z_[i](t, c) = z(t, heads_[i].index, c);
      }
      if (i == 1 && same_layer()) continue;
      const LayerHeads all(attention, layer, lse);
      for (const AttendedHeads& group : all.groups()) kept_[i].emplace_back(group);
    }
  }

  /// Adds what the last pass showed.
  void add() {
    std::vector<AttendedHeads> groups;
    for (const auto& kept : kept_) {
      for (const KeptHeads& one : kept) groups.push_back(one.heads());
    }
    divergences_.add(groups);
    for (const auto& [i, j] : kPairs) {
      const DoubleMatrix more = transposed_product(z_[i], z_[j]);
      for (size_t n = 0; n < more.values.size(); ++n) products_[i + j].values[n] += more.values[n];
    }
    for (const int i : {0, 1}) {
      for (size_t n = 0; n < z_[i].values.size(); ++n)
        sums_[i][n % sums_[i].size()] += z_[i].values[n];
      kept_[i].clear();
    }
    rows_ += z_[0].rows;
  }

  int64_t rows() const { return rows_; }

  double js() const { return divergences_.mean(heads_[0].index, second_index()); }

  std::optional<double> others_js() const {
    double sum = 0;
    int64_t pairs = 0;
    // The list makes it values: otherwise it would refer to what second_index() returned.
    const std::pair<int64_t, int64_t> own = std::minmax({heads_[0].index, second_index()});
    for (int64_t i = 0; i < count_; ++i) {
      for (int64_t j = i + 1; j < count_; ++j) {
        const double mean = divergences_.mean(i, j);
        if (std::pair(i, j) == own || std::isnan(mean)) continue;
        sum += mean;
        ++pairs;
      }
    }
    if (pairs == 0) return std::nullopt;
    return sum / static_cast<double>(pairs);
  }

  double cka(const Model& model) const {
    const DoubleMatrix a = output_gram(*model.layer(heads_[0].site).weights(), heads_[0].index);
    const DoubleMatrix b = output_gram(*model.layer(heads_[1].site).weights(), heads_[1].index);
    return output_cka(shared_squares(a, centred(0, 1), b), shared_squares(a, centred(0, 0), a),
                      shared_squares(b, centred(1, 1), b));
  }

 private:
  static constexpr std::array<std::pair<int, int>, 3> kPairs = {{{0, 0}, {0, 1}, {1, 1}}};

  bool same_layer() const { return heads_[0].site == heads_[1].site; }
  int64_t second_index() const {
    return heads_[1].index + (same_layer() ? 0 : std::ssize(sites_[0]->heads));
  }

  /// S, not divided by the number of rows.
  DoubleMatrix centred(int i, int j) const {
    DoubleMatrix s = products_[i + j];
    for (int64_t x = 0; x < s.rows; ++x) {
      for (int64_t y = 0; y < s.columns; ++y) {
        s(x, y) -= sums_[i][x] * sums_[j][y] / static_cast<double>(rows_);
      }
    }
    return s;
  }

  std::array<HeadIndex, 2> heads_;
  std::array<const AttentionSite*, 2> sites_;
  std::array<std::vector<KeptHeads>, 2> kept_;
  std::array<DoubleMatrix, 2> z_;
  std::array<DoubleMatrix, 3> products_;  // Z_a' Z_a, Z_a' Z_b, Z_b' Z_b
  std::array<std::vector<double>, 2> sums_;
  DivergenceSums divergences_;
  int64_t count_ = 0, rows_ = 0;
};

}  // namespace

HeadComparison compare_heads(const Model& model, HeadIndex a, HeadIndex b,
                             const ObservedCorpus& corpus, const CompareHeadsOptions& options) {
  const AttentionSite &site_a = model.attentions()[a.site], &site_b = model.attentions()[b.site];
  HeadComparison result{.a = site_a.head_name(a.index), .b = site_b.head_name(b.index)};
  if (a == b) {
    throw Error({.what = "a head is compared with itself",
                 .where = result.a,
                 .expected = "two heads of a model"});
  }
  if (type_of(site_a) != type_of(site_b)) {
    throw Error({.what = "heads of different kinds of attention do not see the same keys",
                 .where = result.a,
                 .got = result.b,
                 .expected = "two heads of the encoder, of the decoder, or of cross attention"});
  }
  if (corpus.texts.empty()) {
    throw Error({.what = "there are no texts to compare heads on", .where = corpus.name});
  }
  TwoHeads two(model, a, b);
  ForwardOptions forward{.observer = &two};
  if (!options.gates.empty()) forward.gates = {options.gates.data(), {1, model.heads()}};
  int64_t done = 0;
  for (const std::vector<int64_t>& texts :
       text_batches(corpus, dynamic_ntk_length(model.config()))) {
    TokenBatch source, target;
    for (const int64_t i : texts) {
      source.add(corpus.texts[i].ids, corpus.texts[i].types);
      if (!corpus.texts[i].decoder_ids.empty()) target.add(corpus.texts[i].decoder_ids);
    }
    (void)(target.sequences() > 0 ? model.forward(source, target, forward)
                                  : model.forward(source, forward));
    two.add();
    done += std::ssize(texts);
    if (options.progress) options.progress(done, std::ssize(corpus.texts));
  }
  result.rows = two.rows();
  result.js = two.js();
  result.others_js = two.others_js();
  result.output_cka = two.cka(model);
  result.subspaces = compare_subspaces(model, a, b);
  return result;
}

}  // namespace headwise
