// Cross entropy: checks, the cut into tiles of rows, the products around the SIMD code.
#include "headwise/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/scratch.h"
#include "headwise/core/parallel.h"
#include "headwise/kernels/embedding.h"
#include "headwise/kernels/gemm.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cross_entropy.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/cross_entropy-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(score_rows);
HWY_EXPORT(add_logits);

// A tile of logits stays in L3, but has so many rows that each pass over the weights is worth it:
// of more than 16,384 classes the fewest, though these do not fit L3, 51 MB for those of GPT-2.
constexpr int64_t kTileElements = 4 << 20;
constexpr int64_t kFewestRows = 256;
constexpr int64_t kMostRows = 1024;

// Of row_losses: logits that are in flight stay in L3, and their columns are cut the same way
// whatever the rows.
constexpr int64_t kLossRows = 512;
constexpr int64_t kLossColumns = 3072;

constexpr const char* kOp = "cross_entropy";

int64_t classes_of(const CrossEntropy& problem) {
  return problem.packed != nullptr ? problem.packed->outputs() : problem.weights.extent(0);
}

void check(const CrossEntropy& problem, const CrossEntropyGradients& gradients) {
  const auto& [x, weights, packed, bias, targets, smoothing] = problem;
  const int64_t classes = classes_of(problem), width = x.extent(1);
  check_rows(kOp, "x", x, x.shape());
  if (packed == nullptr) {
    check_rows(kOp, "weights", weights, {classes, width});
  } else {
    check_shape(kOp, "packed", std::array{packed->outputs(), packed->inputs()}, {classes, width});
  }
  if (bias.data() != nullptr) check_rows(kOp, "bias", bias, {classes});
  check_shape(kOp, "targets", std::array{static_cast<int64_t>(targets.size())}, {x.extent(0)});
  if (!(smoothing >= 0 && smoothing <= 1)) {
    fail(kOp, "the share is out of range", "label_smoothing", fmt::format("{}", smoothing),
         "0 to 1");
  }
  for (size_t t = 0; t < targets.size(); ++t) {
    if (targets[t] == kIgnoreIndex || (targets[t] >= 0 && targets[t] < classes)) continue;
    fail(kOp, "there is no such class", fmt::format("targets[{}]", t),
         fmt::format("{}", targets[t]),
         fmt::format("0 to {}, or {}: not scored", classes - 1, kIgnoreIndex));
  }
  if (gradients.dx.data() != nullptr) check_rows(kOp, "dx", gradients.dx, x.shape());
  if (gradients.dweights.data() != nullptr) {
    check_rows(kOp, "dweights", gradients.dweights, {classes, width});
  }
  if (gradients.dbias.data() != nullptr) check_rows(kOp, "dbias", gradients.dbias, {classes});
}

/// Tiles of scored rows, and their memory.
class Tiles {
 public:
  Tiles(const CrossEntropy& problem, const CrossEntropyGradients* gradients)
      : problem_(problem),
        gradients_(gradients != nullptr ? *gradients : CrossEntropyGradients{}),
        scoring_{problem.label_smoothing, gradients != nullptr, gradients_.scale},
        width_(problem.x.extent(1)),
        classes_(classes_of(problem)) {
    for (size_t t = 0; t < problem.targets.size(); ++t) {
      if (problem.targets[t] == kIgnoreIndex) continue;
      rows_.push_back(static_cast<int32_t>(t));
      targets_.push_back(problem.targets[t]);
    }
    if (rows_.empty()) return;
    losses_.resize(rows_.size());
    tile_rows_ = std::min(scored(), std::clamp(kTileElements / classes_, kFewestRows, kMostRows));
    logits_ = scratch_.take<float>(checked_mul(tile_rows_, classes_));
    if (all_scored()) return;
    x_ = scratch_.take<float>(checked_mul(tile_rows_, width_));
    if (gradients_.dx.data() != nullptr) dx_ = scratch_.take<float>(tile_rows_ * width_);
  }

  CrossEntropyLoss run() {
    clear_dx();
    for (int64_t begin = 0; begin < scored(); begin += tile_rows_) {
      score(begin, std::min(begin + tile_rows_, scored()));
    }
    CrossEntropyLoss result{.scored = scored()};
    for (const RowLoss& row : losses_) {
      result.loss += row.loss;
      result.nll += row.nll;
      result.correct += row.correct ? 1 : 0;
    }
    return result;
  }

 private:
  int64_t scored() const { return static_cast<int64_t>(rows_.size()); }
  bool all_scored() const { return scored() == problem_.x.extent(0); }

  /// Rows that are not scored have no gradient; the others are overwritten anyway.
  void clear_dx() {
    if (gradients_.dx.data() == nullptr) return;
    for (int64_t t = 0; t < gradients_.dx.extent(0); ++t) {
      if (problem_.targets[t] == kIgnoreIndex) std::fill_n(&gradients_.dx(t, 0), width_, 0.0f);
    }
  }

  void score(int64_t begin, int64_t end) {
    const View<const float, 2> x = gather(begin, end);
    const View<float, 2> logits(logits_, {end - begin, classes_});
    if (problem_.packed != nullptr) {
      linear(x, *problem_.packed, logits, {.bias = problem_.bias});
    } else {
      gemm(x, transposed(problem_.weights), logits, {.bias = problem_.bias});
    }
    parallel_panels(end - begin, rows_per_item(classes_), [&](int64_t from, int64_t to) {
      HWY_DYNAMIC_DISPATCH(score_rows)
      (scoring_, logits.rows(from, to), &targets_[begin + from], &losses_[begin + from]);
    });
    if (gradients_.dx.data() != nullptr) pull_back(logits, begin, end);
    if (gradients_.dweights.data() != nullptr) {
      gemm(transposed(View<const float, 2>(logits)), x, gradients_.dweights,
           {.accumulate = begin > 0 || !gradients_.zero_dweights});
    }
    if (gradients_.dbias.data() != nullptr) sum_rows(logits, gradients_.dbias);
  }

  View<const float, 2> gather(int64_t begin, int64_t end) {
    if (all_scored()) return problem_.x.rows(begin, end);
    const View<float, 2> x(x_, {end - begin, width_});
    embedding(problem_.x, std::span(rows_).subspan(begin, end - begin), 1, false, x);
    return x;
  }

  void pull_back(View<const float, 2> dlogits, int64_t begin, int64_t end) {
    const View<float, 2> dx =
        all_scored() ? gradients_.dx.rows(begin, end) : View<float, 2>(dx_, {end - begin, width_});
    if (problem_.packed != nullptr) {
      linear_backward(dlogits, *problem_.packed, dx);
    } else {
      gemm(dlogits, problem_.weights, dx);
    }
    if (all_scored()) return;
    for (int64_t r = 0; r < dx.extent(0) && width_ > 0; ++r) {
      std::copy_n(&dx(r, 0), width_, &gradients_.dx(rows_[begin + r], 0));
    }
  }

  const CrossEntropy& problem_;
  CrossEntropyGradients gradients_;
  RowScoring scoring_;
  int64_t width_, classes_;
  std::vector<int32_t> rows_, targets_;  // those that are scored
  std::vector<RowLoss> losses_;
  int64_t tile_rows_ = 1;
  Scratch scratch_;  // kept by the thread: millions of numbers take the system long to give
  float* logits_ = nullptr;
  float *x_ = nullptr, *dx_ = nullptr;  // copies of rows, unless all are scored
};

}  // namespace

CrossEntropyLoss cross_entropy(const CrossEntropy& problem,
                               const CrossEntropyGradients* gradients) {
  check(problem, gradients != nullptr ? *gradients : CrossEntropyGradients{});
  return Tiles(problem, gradients).run();
}

void row_losses(View<const float, 2> x, const PackedWeights& weights, View<const float, 1> bias,
                std::span<const int32_t> targets, std::span<double> nll) {
  constexpr const char* kLosses = "row_losses";
  const int64_t T = x.extent(0), V = weights.outputs();
  check_shape(kLosses, "targets", std::array{std::ssize(targets)}, {T});
  check_shape(kLosses, "nll", std::array{std::ssize(nll)}, {T});
  for (size_t t = 0; t < targets.size(); ++t) {
    if (targets[t] >= 0 && targets[t] < V) continue;
    fail(kLosses, "there is no such class", fmt::format("targets[{}]", t),
         fmt::format("{}", targets[t]), fmt::format("0 to {}", V - 1));
  }
  Scratch scratch;
  float* const logits = scratch.take<float>(std::min(T, kLossRows) * std::min(V, kLossColumns));
  std::vector<RunningSum> sums(std::min(T, kLossRows));
  for (int64_t first = 0; first < T; first += kLossRows) {
    const int64_t rows = std::min(kLossRows, T - first);
    std::fill(sums.begin(), sums.end(), RunningSum{-std::numeric_limits<float>::infinity(), 0});
    for (int64_t begin = 0; begin < V; begin += kLossColumns) {
      const int64_t end = std::min(begin + kLossColumns, V);
      const View<float, 2> part(logits, {rows, end - begin});
      linear_columns(x.rows(first, first + rows), weights, begin, part,
                     {.bias = bias.data() == nullptr ? bias : bias.rows(begin, end)});
      parallel_panels(rows, rows_per_item(end - begin), [&](int64_t from, int64_t to) {
        HWY_DYNAMIC_DISPATCH(add_logits)(part.rows(from, to), &sums[from]);
      });
      for (int64_t t = 0; t < rows; ++t) {
        const int32_t target = targets[first + t];
        if (target >= begin && target < end) nll[first + t] = -double{part(t, target - begin)};
      }
    }
    for (int64_t t = 0; t < rows; ++t) {
      nll[first + t] += double{sums[t].most} + std::log(sums[t].sum);
    }
  }
}

}  // namespace headwise
#endif  // HWY_ONCE
