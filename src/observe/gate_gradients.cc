// Gradients for gates, of outputs and of pooled hidden states.
#include "observe/gate_gradients.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "headwise/core/random.h"
#include "headwise/core/seed.h"
#include "model/model_parts.h"
#include "observe/loss_batch.h"
#include "train/adapt.h"
#include "train/network.h"

namespace headwise {
namespace {

constexpr int64_t kProjections = 8;
constexpr uint32_t kProject = 0x9A7E5;

double dot(View<const float, 2> a, int64_t i, View<const float, 2> b, int64_t j) {
  double sum = 0;
  for (int64_t c = 0; c < a.extent(1); ++c) sum += double{a(i, c)} * b(j, c);
  return sum;
}

/// One evaluation.
class Gradients {
 public:
  Gradients(const Model& model, const SentencePooling& pooling, const EvaluationSet& set,
            const GradientOptions& options)
      : network_(layers_of(model)),
        pooling_(pooling),
        set_(set),
        options_(options),
        heads_(model.heads()) {}

  GateGradients run() {
    GateGradients result{.scores = std::vector<double>(heads_)};
    for (int64_t begin = 0, end; begin < set_.size(); begin = end) {
      end = add_examples(begin);
      if (!examples_.empty()) add_scores(result.scores);
      result.examples += std::ssize(examples_);
      if (options_.progress) options_.progress(end, set_.size());
    }
    for (double& score : result.scores) score /= static_cast<double>(result.examples);
    return result;
  }

 private:
  /// The next batch; gives the first example behind it.
  int64_t add_examples(int64_t begin) {
    const TrainingBatch& all = set_.examples.all;
    batch_ = {};
    examples_.clear();
    tokens_.clear();
    int64_t x = begin;
    for (; x < set_.size(); ++x) {
      if (x > begin && batch_.tokens() + set_.examples.tokens(x) > options_.batch_rows) break;
      const std::span<const int32_t> labels = labels_of(x);
      const int64_t scored = std::ssize(labels) - std::ranges::count(labels, kIgnoreIndex);
      if (set_.task != LossTask::fidelity && set_.task != LossTask::similarity && scored == 0) {
        continue;
      }
      for (int64_t i = 0; i < set_.examples.texts_each; ++i) {
        add_text(all.source, x * set_.examples.texts_each + i, batch_.source);
      }
      if (all.target.sequences() > 0) add_text(all.target, x, batch_.target);
      batch_.labels.insert(batch_.labels.end(), labels.begin(), labels.end());
      examples_.push_back(x);
      tokens_.push_back(std::max<int64_t>(1, scored));
    }
    return x;
  }

  std::span<const int32_t> labels_of(int64_t x) const {
    const TrainingBatch& all = set_.examples.all;
    if (all.labels.empty()) return {};
    if (set_.task == LossTask::classify) return std::span(all.labels).subspan(x, 1);
    const TokenBatch& texts = all.target.sequences() > 0 ? all.target : all.source;
    return std::span(all.labels).subspan(texts.offsets[x], texts.offsets[x + 1] - texts.offsets[x]);
  }

  /// Gates of their own for every text, so that gradients are of every text.
  PassOptions with_gates() {
    const int64_t B = batch_.source.sequences();
    gates_.clear();
    for (int64_t b = 0; b < B; ++b) {
      if (options_.gates.empty()) {
        gates_.insert(gates_.end(), heads_, 1.f);
      } else {
        gates_.insert(gates_.end(), options_.gates.begin(), options_.gates.end());
      }
    }
    dgates_.assign(gates_.size(), 0.f);
    return {.balance = false,
            .gates = {gates_.data(), {B, heads_}},
            .dgates = {dgates_.data(), {B, heads_}}};
  }

  /// Of example i of the batch, whose texts share its gates.
  double dgate(int64_t i, int64_t h) const {
    double sum = 0;
    for (int64_t t = 0; t < set_.examples.texts_each; ++t) {
      sum += dgates_[(i * set_.examples.texts_each + t) * heads_ + h];
    }
    return sum;
  }

  void add_scores(std::vector<double>& scores) {
    const PassOptions options = with_gates();
    if (set_.task == LossTask::fidelity) return add_fidelity(options, scores);
    if (set_.task == LossTask::similarity) {
      bool done = false;
      network_.run_hidden(batch_, options, [&](auto hidden, auto dhidden) {
        if (!done) cosines_backward(hidden, dhidden);
        return !std::exchange(done, true);
      });
    } else {
      (void)network_.run(batch_, options, true);
    }
    for (int64_t i = 0; i < std::ssize(examples_); ++i) {
      for (int64_t h = 0; h < heads_; ++h) {
        scores[h] += std::abs(dgate(i, h)) / static_cast<double>(tokens_[i]);
      }
    }
  }

  void add_fidelity(const PassOptions& options, std::vector<double>& scores) {
    int64_t projection = 0;
    const auto harvest = [&] {
      for (int64_t i = 0; i < std::ssize(examples_); ++i) {
        for (int64_t h = 0; h < heads_; ++h) {
          const double d = dgate(i, h);
          scores[h] += d * d / 2 / static_cast<double>(kProjections);
        }
      }
      std::ranges::fill(dgates_, 0.f);
    };
    network_.run_hidden(batch_, options, [&](auto hidden, auto dhidden) {
      if (projection > 0) harvest();
      if (projection == kProjections) return false;
      project_backward(projection++, hidden, dhidden);
      return true;
    });
  }

  std::span<const int64_t> offsets() const {
    return batch_.target.sequences() > 0 ? batch_.target.offsets : batch_.source.offsets;
  }

  /// dhidden of r · û of every text, r its own random signs.
  void project_backward(int64_t projection, View<const float, 2> hidden, View<float, 2> dhidden) {
    const Activations embedded = pooling_.embed(hidden, offsets());
    const View<const float, 2> e = embedded.rows;
    const int64_t E = e.extent(1);
    Activations signs(e.extent(0), E);
    for (int64_t b = 0; b < e.extent(0); ++b) {
      Random random(derived_seed(options_.seed, static_cast<uint64_t>(examples_[b]),
                                 static_cast<uint32_t>(projection), kProject));
      for (int64_t c = 0; c < E; ++c) signs.rows(b, c) = (random.next() & 1) != 0 ? 1.f : -1.f;
      const double length = norm_of(e, b);
      const double along = dot(signs.rows, b, e, b) / length;
      for (int64_t c = 0; c < E; ++c) {
        signs.rows(b, c) =
            static_cast<float>((double{signs.rows(b, c)} - along * e(b, c) / length) / length);
      }
    }
    pooling_.backward(hidden, offsets(), signs.rows, dhidden);
  }

  /// dhidden of the cosine of every pair.
  void cosines_backward(View<const float, 2> hidden, View<float, 2> dhidden) {
    const Activations embedded = pooling_.embed(hidden, offsets());
    const View<const float, 2> e = embedded.rows;
    Activations d(e.extent(0), e.extent(1));
    for (int64_t a = 0; a < e.extent(0); a += 2) {
      const int64_t b = a + 1;
      const double norm_a = norm_of(e, a), norm_b = norm_of(e, b);
      const double cosine = dot(e, a, e, b) / (norm_a * norm_b);
      for (int64_t c = 0; c < e.extent(1); ++c) {
        const double unit_a = e(a, c) / norm_a, unit_b = e(b, c) / norm_b;
        d.rows(a, c) = static_cast<float>((unit_b - cosine * unit_a) / norm_a);
        d.rows(b, c) = static_cast<float>((unit_a - cosine * unit_b) / norm_b);
      }
    }
    pooling_.backward(hidden, offsets(), d.rows, dhidden);
  }

  Network network_;
  const SentencePooling& pooling_;
  const EvaluationSet& set_;
  const GradientOptions& options_;
  int64_t heads_;

  // The batch.
  TrainingBatch batch_;
  std::vector<int64_t> examples_, tokens_;
  std::vector<float> gates_, dgates_;
};

}  // namespace

GateGradients gate_gradients(const Model& model, const SentencePooling& pooling,
                             const EvaluationSet& set, const GradientOptions& options) {
  const bool pooled = set.task == LossTask::similarity || set.task == LossTask::fidelity;
  if (!pooled) check_trainable(model.config());
  return Gradients(model, pooling, set, options).run();
}

}  // namespace headwise
