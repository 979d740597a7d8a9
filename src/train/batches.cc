// Permutes, sorts by length in pools, packs to the budget, and permutes the batches.
#include "headwise/train/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/shuffle.h"
#include "headwise/core/error.h"
#include "headwise/core/random.h"
#include "headwise/core/seed.h"

namespace headwise {
namespace {

/// Examples of so many batches are sorted by length at once: batches then have texts of similar
/// lengths, and still differ from epoch to epoch.
constexpr int64_t kBatchesPerPool = 32;

constexpr float kHidden = 0.8f;    // of the chosen tokens of masked LM become the mask,
constexpr float kReplaced = 0.1f;  // so many another token; the others stay

enum class Purpose : uint32_t { order = 0xDA7A0001, batches, masks };

/// A seed of its own for every purpose and epoch.
uint64_t derive(uint64_t seed, Purpose purpose, int64_t epoch) {
  return derived_seed(seed, static_cast<uint64_t>(epoch), static_cast<uint32_t>(purpose), 0);
}

/// Every other pool from long to short, so that neighbours of different pools are alike, too.
void sort_in_pools(std::vector<int64_t>& order, const Examples& examples, int64_t pool_tokens) {
  bool rising = true;
  for (size_t begin = 0, end; begin < order.size(); begin = end, rising = !rising) {
    int64_t tokens = 0;
    for (end = begin; end < order.size() && tokens < pool_tokens; ++end) {
      tokens += examples.tokens(order[end]);
    }
    std::stable_sort(order.begin() + static_cast<ptrdiff_t>(begin),
                     order.begin() + static_cast<ptrdiff_t>(end), [&](int64_t a, int64_t b) {
                       return rising ? examples.tokens(a) < examples.tokens(b)
                                     : examples.tokens(a) > examples.tokens(b);
                     });
  }
}

/// Where batches begin that have at most so many tokens, or one example; and the end.
std::vector<int64_t> pack(const std::vector<int64_t>& order, const Examples& examples,
                          int64_t most_tokens) {
  std::vector<int64_t> begins;
  int64_t tokens = 0;
  for (int64_t i = 0; i < std::ssize(order); ++i) {
    const int64_t more = examples.tokens(order[static_cast<size_t>(i)]);
    if (i == 0 || tokens + more > most_tokens) {
      begins.push_back(i);
      tokens = 0;
    }
    tokens += more;
  }
  begins.push_back(std::ssize(order));
  return begins;
}

void permute_batches(std::vector<int64_t>& order, std::vector<int64_t>& begins, Random random) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (size_t i = 0; i + 1 < begins.size(); ++i) ranges.emplace_back(begins[i], begins[i + 1]);
  permute(ranges, random);
  std::vector<int64_t> permuted;
  permuted.reserve(order.size());
  begins = {0};
  for (const auto& [begin, end] : ranges) {
    permuted.insert(permuted.end(), order.begin() + begin, order.begin() + end);
    begins.push_back(std::ssize(permuted));
  }
  order = std::move(permuted);
}

std::span<const int32_t> text_of(const TokenBatch& texts, int64_t index) {
  const int64_t begin = texts.offsets[static_cast<size_t>(index)];
  const int64_t end = texts.offsets[static_cast<size_t>(index) + 1];
  return std::span(texts.ids).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

/// Hides some tokens of a text: `ids` becomes what the model reads, and the labels of its rows are
/// added. At least one token is hidden.
void hide(std::span<int32_t> ids, const Masking& masking, Random random,
          std::vector<int32_t>& labels) {
  std::vector<size_t> candidates, chosen;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (masking.is_special[static_cast<size_t>(ids[i])]) continue;
    candidates.push_back(i);
    if (random.uniform() < masking.share) chosen.push_back(i);
  }
  if (chosen.empty() && !candidates.empty()) {
    chosen.push_back(candidates[random.below(static_cast<uint32_t>(candidates.size()))]);
  }
  const size_t first = labels.size();
  labels.resize(first + ids.size(), kIgnoreIndex);
  for (const size_t i : chosen) {
    labels[first + i] = ids[i];
    const float drawn = random.uniform();
    if (drawn < kHidden) {
      ids[i] = masking.mask;
    } else if (drawn < kHidden + kReplaced) {
      ids[i] = masking.drawn[random.below(static_cast<uint32_t>(masking.drawn.size()))];
    }
  }
}

}  // namespace

Epoch::Epoch(const Examples& examples, const BatchSettings& settings, int64_t number)
    : examples_(&examples), masks_(derive(settings.seed, Purpose::masks, number)) {
  if (settings.tokens < 1) {
    throw Error({.what = "batches: a batch needs tokens",
                 .where = "tokens",
                 .got = fmt::format("{}", settings.tokens),
                 .expected = "at least 1"});
  }
  order_.resize(static_cast<size_t>(examples.size()));
  std::iota(order_.begin(), order_.end(), 0);
  if (settings.shuffle) {
    Random random(derive(settings.seed, Purpose::order, number));
    permute(order_, random);
    sort_in_pools(order_, examples, kBatchesPerPool * settings.tokens);
  }
  begins_ = pack(order_, examples, settings.tokens);
  if (settings.shuffle) {
    permute_batches(order_, begins_, Random(derive(settings.seed, Purpose::batches, number)));
  }
}

std::span<const int64_t> Epoch::examples(int64_t index) const {
  if (index < 0 || index >= batches()) {
    throw Error({.what = "batches: there is no such batch",
                 .where = "index",
                 .got = fmt::format("{}", index),
                 .expected = fmt::format("0 to {}", batches() - 1)});
  }
  const auto begin = static_cast<size_t>(begins_[static_cast<size_t>(index)]);
  const auto end = static_cast<size_t>(begins_[static_cast<size_t>(index) + 1]);
  return std::span(order_).subspan(begin, end - begin);
}

TrainingBatch Epoch::batch(int64_t index) const {
  const TrainingBatch& all = examples_->all;
  const bool decodes = all.target.sequences() > 0;
  const TokenBatch& scored = decodes ? all.target : all.source;
  const bool per_row = std::ssize(all.labels) == scored.rows();
  TrainingBatch batch;
  for (const int64_t example : examples(index)) {
    for (int64_t i = 0; i < examples_->texts_each; ++i) {
      batch.source.add(text_of(all.source, example * examples_->texts_each + i));
    }
    if (decodes) batch.target.add(text_of(all.target, example));
    if (!all.scores.empty()) batch.scores.push_back(all.scores[static_cast<size_t>(example)]);
    if (examples_->masking) {
      const auto ids = std::span(batch.source.ids).last(text_of(all.source, example).size());
      hide(ids, *examples_->masking, Random(masks_, static_cast<uint64_t>(example)), batch.labels);
    } else if (!all.labels.empty()) {
      const auto text = static_cast<size_t>(example);
      const int64_t begin = per_row ? scored.offsets[text] : example;
      const int64_t end = per_row ? scored.offsets[text + 1] : example + 1;
      batch.labels.insert(batch.labels.end(), all.labels.begin() + begin, all.labels.begin() + end);
    }
  }
  return batch;
}

}  // namespace headwise
