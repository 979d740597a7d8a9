// semantic: whether a head looks at tokens of similar meaning, by their static embeddings.
#include <algorithm>
#include <cmath>

#include "core/shuffle.h"
#include "headwise/core/parallel.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "headwise/kernels/gemm.h"
#include "kernels/spread.h"
#include "observe/token_kinds.h"
#include "observe/visible_keys.h"
#include "observe/watcher.h"

namespace headwise {
namespace {

constexpr int64_t kRowsPerText = 256;
constexpr int64_t kFewestCandidates = 3;
constexpr int64_t kMostWeights = 1 << 20;  // held at once
constexpr uint32_t kPurpose = 0x5E3A0001;

/// A row whose weights are compared, and the keys that it is compared at.
struct ChosenRow {
  int64_t row = 0;               // of the batch
  int64_t position = 0;          // in its text
  int64_t keys = 0;              // of its text
  std::vector<float> counted{};  // [keys] 1 at candidates, else 0
  std::vector<float> cosines{};  // [keys] of candidates, else 0
};

class Semantics : public Watcher {
 public:
  explicit Semantics(const WatchContext& context)
      : context_(context), kinds_(context), sums_(context.model.heads()) {}

  void begin(const WatchedBatch& batch) override {
    batch_ = &batch;
    source_ = choose(batch.source);
    target_ = choose(batch.target);
  }

  void attended(const AttentionSite& site, const Attention& attention,
                const MultiHeadAttention& layer, View<const float, 3>,
                View<const float, 2>) override {
    if (site.kind == AttentionKind::cross) return;
    const auto& chosen = &batch_->rows(site) == &batch_->source ? source_ : target_;
    const std::vector<HeadGroup> groups = layer.groups(attention);
    const int64_t heads = std::ssize(site.heads);
    for (size_t begin = 0, end; begin < chosen.size(); begin = end) {
      std::vector<int64_t> rows;
      int64_t weights = 0;
      for (end = begin; end < chosen.size() && (end == begin || weights < kMostWeights); ++end) {
        rows.push_back(chosen[end].row);
        weights += heads * chosen[end].keys;
      }
      const AttentionMaps maps = layer.maps(attention, rows);
      std::vector<double> values(rows.size() * heads);
      parallel_for(std::ssize(rows), [&](int64_t i) {
        for (const HeadGroup& group : groups) {
          correlate(chosen[begin + i], group, maps, i, &values[i * heads]);
        }
      });
      for (size_t i = 0; i < values.size(); ++i) {
        if (!std::isnan(values[i])) sums_[site.first + i % heads] += {values[i], 1};
      }
    }
  }

  void finish(std::span<Measures> heads, Evidence&) override {
    for (size_t h = 0; h < heads.size(); ++h) {
      heads[h].add("semantic", {.value = sums_[h].mean(), .n = sums_[h].n});
    }
  }

 private:
  /// The rows of a side, with the cosines of their words and the candidates.
  std::vector<ChosenRow> choose(const TokenBatch& tokens) const {
    std::vector<ChosenRow> chosen;
    if (tokens.texts() == 0) return chosen;
    const std::vector<uint8_t> special = kinds_.special(*batch_, tokens);
    const Side side = &tokens == &batch_->source && context_.model.config().encoder.layers() > 0
                          ? Side::encoder
                          : Side::decoder;
    const Activations words = unit_vectors(side, tokens);
    for (int64_t b = 0; b < tokens.texts(); ++b) {
      const int64_t first = tokens.offsets[b], keys = tokens.offsets[b + 1] - first;
      const std::vector<int64_t> positions = choose_below(
          kRowsPerText, keys, Random(derived_seed(context_.seed, batch_->texts[b], 0, kPurpose)));
      Activations of_rows(std::ssize(positions), words.rows.extent(1));
      for (size_t i = 0; i < positions.size(); ++i) {
        std::copy_n(&words.rows(first + positions[i], 0), words.rows.extent(1),
                    &of_rows.rows(static_cast<int64_t>(i), 0));
      }
      Activations cosines(std::ssize(positions), keys);
      gemm(of_rows.rows, transposed(View<const float, 2>(words.rows.rows(first, first + keys))),
           cosines.rows);
      for (size_t i = 0; i < positions.size(); ++i) {
        ChosenRow row{.row = first + positions[i],
                      .position = positions[i],
                      .keys = keys,
                      .counted = std::vector<float>(keys),
                      .cosines = std::vector<float>(keys)};
        for (int64_t j = 0; j < keys; ++j) {
          if (special[first + j] != 0 || tokens.ids[first + j] == tokens.ids[row.row]) continue;
          row.counted[j] = 1;
          row.cosines[j] = cosines.rows(static_cast<int64_t>(i), j);
        }
        chosen.push_back(std::move(row));
      }
    }
    return chosen;
  }

  Activations unit_vectors(Side side, const TokenBatch& tokens) const {
    Activations words = context_.model.word_embeddings(side, tokens.ids);
    parallel_panels(words.rows.extent(0), 64, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        double squares = 0;
        for (int64_t c = 0; c < words.rows.extent(1); ++c) {
          squares += double{words.rows(row, c)} * words.rows(row, c);
        }
        const double length = std::sqrt(squares);
        for (int64_t c = 0; c < words.rows.extent(1) && length > 0; ++c) {
          words.rows(row, c) = static_cast<float>(words.rows(row, c) / length);
        }
      }
    });
    return words;
  }

  static void correlate(const ChosenRow& row, const HeadGroup& group, const AttentionMaps& maps,
                        int64_t index, double* values) {
    const VisibleKeys seen = visible_keys(group.attention.mask, row.position, row.keys);
    const int64_t first = std::min(seen.begin, row.keys),
                  keys = std::min(seen.end, row.keys) - first;
    const float* const counted = row.counted.data() + first;
    const float* const cosines = row.cosines.data() + first;
    const int64_t n = std::count(counted, counted + keys, 1.f);
    std::fill_n(values + group.first, group.count, std::nan(""));
    if (n < kFewestCandidates) return;
    const Spread of_cosines = spread(cosines, cosines, counted, n, keys);
    if (!of_cosines.varies(n)) return;
    for (int64_t h = group.first; h < group.first + group.count; ++h) {
      const float* const weights = maps.row(index, h).data() + first;
      const Spread of_weights = spread(weights, cosines, counted, n, keys);
      if (!of_weights.varies(n)) continue;
      values[h] = of_weights.products / std::sqrt(of_weights.squares * of_cosines.squares);
    }
  }

  const WatchContext& context_;
  TokenKinds kinds_;
  const WatchedBatch* batch_ = nullptr;
  std::vector<ChosenRow> source_, target_;
  std::vector<Tally> sums_;
};

}  // namespace

std::unique_ptr<Watcher> watch_semantics(const WatchContext& context) {
  return std::make_unique<Semantics>(context);
}

}  // namespace headwise
