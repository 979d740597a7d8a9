// semantic: whether a head attends to tokens of similar meaning, by their static embeddings.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/shuffle.h"
#include "headwise/core/buffer.h"
#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/kernels/gemm.h"
#include "headwise/kernels/sum_of_squares.h"
#include "observe/head_metric.h"
#include "observe/token_kinds.h"

namespace headwise {
namespace {

constexpr int64_t kRowsPerText = 256;
constexpr uint32_t kSemanticsPurpose = 0x5E3A0001;

/// The rows of a side whose weights are compared with cosines.
struct ChosenRows {
  std::vector<int64_t> index{};  // of a row of the batch among the R chosen, or -1
  Buffer numbers{};
  View<float, 2> cosines{};  // [R, most tokens of a text]; NaN at keys that are no candidates
};

class Semantics : public HeadMetric {
 public:
  explicit Semantics(const MetricContext& context)
      : context_(context), kinds_(context), sums_(context.model.heads()) {}

  bool wants_weights() const override { return true; }

  void begin(const MetricBatch& batch) override {
    batch_ = &batch;
    choose(batch.source, source_);
    choose(batch.target, target_);
  }

  void on_attention(const AttentionSite& site, const Attention&,
                    AttentionObserver& observer) override {
    if (site.kind == AttentionKind::cross) return;
    const ChosenRows& chosen = rows(site);
    const int64_t R = chosen.cosines.extent(0), heads = std::ssize(site.heads);
    observer.compared = chosen.index;
    observer.compared_with = chosen.cosines;
    observer.correlation = correlations_ = {values_.at_least(R * heads), {R, heads}};
  }

  void on_z(const AttentionSite& site, const Attention&, const MultiHeadAttention&,
            View<const float, 3>, View<const float, 2>) override {
    if (site.kind == AttentionKind::cross) return;
    for (int64_t i = 0; i < correlations_.extent(0); ++i) {
      for (int64_t h = 0; h < correlations_.extent(1); ++h) {
        const float value = correlations_(i, h);
        if (!std::isnan(value)) sums_[site.first + h] += {value, 1};
      }
    }
  }

  void finish(std::span<Measures> heads, Evidence&) override {
    for (size_t h = 0; h < heads.size(); ++h) {
      heads[h].add("semantic", {.value = sums_[h].mean(), .n = sums_[h].n});
    }
  }

 private:
  const ChosenRows& rows(const AttentionSite& site) const {
    return &batch_->rows(site) == &batch_->source ? source_ : target_;
  }

  void choose(const TokenBatch& tokens, ChosenRows& chosen) const {
    chosen.index.assign(tokens.rows(), -1);
    std::vector<std::vector<int64_t>> positions(
        tokens.sequences());                             // of chosen rows in their text
    std::vector<int64_t> first(tokens.sequences() + 1);  // among the chosen
    int64_t longest = 0;
    for (int64_t b = 0; b < tokens.sequences(); ++b) {
      const int64_t keys = tokens.offsets[b + 1] - tokens.offsets[b];
      positions[b] =
          choose_below(kRowsPerText, keys,
                       Random(derived_seed(context_.seed, batch_->texts[b], 0, kSemanticsPurpose)));
      first[b + 1] = first[b] + std::ssize(positions[b]);
      longest = std::max(longest, keys);
    }
    const int64_t R = first.back();
    chosen.cosines = {chosen.numbers.at_least(R * longest), {R, longest}};
    if (R == 0) return;
    const std::vector<uint8_t> special = kinds_.special(*batch_, tokens);
    const Side side = &tokens == &batch_->source && context_.model.config().encoder.layers() > 0
                          ? Side::encoder
                          : Side::decoder;
    const Activations words = unit_vectors(side, tokens);
    parallel_for(tokens.sequences(), [&](int64_t b) {
      const int64_t begin = tokens.offsets[b], end = tokens.offsets[b + 1];
      const View<float, 2> all = chosen.cosines.rows(first[b], first[b + 1]);
      const View<float, 2> cosines(all.data(), {all.extent(0), end - begin}, all.strides());
      for (int64_t i = 0; i < all.extent(0); ++i) {
        chosen.index[begin + positions[b][i]] = first[b] + i;
      }
      multiply(words.rows.rows(begin, end), positions[b], cosines);
      leave_out(std::span(tokens.ids).subspan(begin, end - begin),
                std::span(special).subspan(begin, end - begin), positions[b], cosines);
    });
  }

  /// Of the words [N, C] of a text, those at some positions with all.
  static void multiply(View<const float, 2> words, std::span<const int64_t> positions,
                       View<float, 2> cosines) {
    if (std::ssize(positions) == words.extent(0)) return gemm(words, transposed(words), cosines);
    Activations some(std::ssize(positions), words.extent(1));
    for (int64_t i = 0; i < std::ssize(positions); ++i) {
      std::copy_n(&words(positions[i], 0), words.extent(1), &some.rows(i, 0));
    }
    gemm(some.rows, transposed(words), cosines);
  }

  static void leave_out(std::span<const int32_t> ids, std::span<const uint8_t> special,
                        std::span<const int64_t> positions, View<float, 2> cosines) {
    for (int64_t i = 0; i < cosines.extent(0); ++i) {
      const int32_t id = ids[positions[i]];
      for (int64_t j = 0; j < cosines.extent(1); ++j) {
        if (special[j] != 0 || ids[j] == id) {
          cosines(i, j) = std::numeric_limits<float>::quiet_NaN();
        }
      }
    }
  }

  Activations unit_vectors(Side side, const TokenBatch& tokens) const {
    Activations words = context_.model.word_embeddings(side, tokens.ids);
    const int64_t C = words.rows.extent(1);
    parallel_panels(words.rows.extent(0), 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float* const word = &words.rows(row, 0);
        const double squares = sum_of_squares(std::span(word, static_cast<size_t>(C)));
        if (!(squares > 0)) continue;
        const auto inverse = static_cast<float>(1 / std::sqrt(squares));
        for (int64_t c = 0; c < C; ++c) word[c] *= inverse;
      }
    });
    return words;
  }

  const MetricContext& context_;
  TokenKinds kinds_;
  const MetricBatch* batch_ = nullptr;
  ChosenRows source_, target_;
  Buffer values_;
  View<float, 2> correlations_;  // [R, H] of the attention at hand
  std::vector<RunningMean> sums_;
};

}  // namespace

std::unique_ptr<HeadMetric> semantics_metric(const MetricContext& context) {
  return std::make_unique<Semantics>(context);
}

}  // namespace headwise
