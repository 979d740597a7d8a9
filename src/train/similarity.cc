// Cosines of pairs of pooled texts, and their gradients.
#include "train/similarity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <variant>

#include "headwise/core/error.h"
#include "model/sentence_modules.h"

namespace headwise {
namespace {

constexpr double kLeastNorm = 1e-8;  // that of torch.cosine_similarity

void check_pairs(const TrainingBatch& batch) {
  const int64_t texts = batch.source.sequences();
  if (texts % 2 != 0 || 2 * std::ssize(batch.scores) != texts) {
    throw Error({.what = "the texts are not pairs with a score each",
                 .got = fmt::format("{} texts, {} scores", texts, batch.scores.size()),
                 .expected = "half as many scores as texts"});
  }
  for (int64_t b = 0; b < texts; ++b) {
    if (batch.source.offsets[b] < batch.source.offsets[b + 1]) continue;
    throw Error(
        {.what = "a text without tokens has no embedding", .where = fmt::format("text {}", b)});
  }
}

double dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

struct Pair {
  std::span<const float> a, b;
  double cosine = 0, norm_a = 0, norm_b = 0;

  Pair(std::span<const float> first, std::span<const float> second) : a(first), b(second) {
    norm_a = std::max(std::sqrt(dot(a, a)), kLeastNorm);
    norm_b = std::max(std::sqrt(dot(b, b)), kLeastNorm);
    cosine = dot(a, b) / (norm_a * norm_b);
  }

  /// da = factor * ∂cosine/∂a, and db likewise.
  void backward(double factor, std::span<float> da, std::span<float> db) const {
    for (size_t i = 0; i < a.size(); ++i) {
      const double unit_a = a[i] / norm_a, unit_b = b[i] / norm_b;
      da[i] = static_cast<float>(factor * (unit_b - cosine * unit_a) / norm_a);
      db[i] = static_cast<float>(factor * (unit_a - cosine * unit_b) / norm_b);
    }
  }
};

}  // namespace

Similarity::Similarity(const std::filesystem::path& folder)
    : pooling_(SentencePooling::find_or_mean(folder)) {
  for (const SentenceModule& module : read_sentence_modules(folder)) {
    const auto* const dense = std::get_if<DenseModule>(&module);
    if (dense == nullptr) continue;
    throw Error({.what = "a module of the sentence embedding cannot be trained",
                 .where = (folder / dense->place).string(),
                 .got = "Dense",
                 .expected = "Transformer, Pooling or Normalize of sentence_transformers"});
  }
}

Loss Similarity::run(View<const float, 2> hidden, const TrainingBatch& batch,
                     const PassOptions& options, View<float, 2> dhidden) {
  check_pairs(batch);
  const Activations pooled = pooling_.embed(hidden, batch.source.offsets);
  const int64_t E = pooled.rows.extent(1);
  Activations dpooled(pooled.rows.extent(0), E);
  const auto row = [&](const Activations& of, size_t b) {
    return std::span(&of.rows(b, 0), static_cast<size_t>(E));
  };
  Loss loss{.scored = std::ssize(batch.scores)};
  for (size_t i = 0; i < batch.scores.size(); ++i) {
    const Pair pair(row(pooled, 2 * i), row(pooled, 2 * i + 1));
    const double error = pair.cosine - double{batch.scores[i]};
    loss.loss += error * error;
    pair.backward(2 * error * double{options.gradient_scale}, row(dpooled, 2 * i),
                  row(dpooled, 2 * i + 1));
  }
  loss.nll = loss.loss;
  if (dhidden.data() == nullptr) return loss;
  pooling_.backward(hidden, batch.source.offsets, dpooled.rows, dhidden);
  return loss;
}

}  // namespace headwise
