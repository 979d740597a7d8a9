// Intervals of ablations that stop when their standing is decided hold as often as they promise.
#include "observe/adaptive_ablation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "golden/folder.h"
#include "golden/golden_tensors.h"
#include "headwise/core/random.h"

namespace headwise {
namespace {

/// Losses of single sentences that tests/golden/losses/make_losses.py recorded.
struct RecordedLosses {
  LossTask task;
  std::vector<int64_t> tokens;                   // [n]
  std::vector<double> base;                      // [n], of the unchanged model
  std::vector<std::vector<double>> differences;  // [heads][n], ablated minus base

  RecordedLosses(const std::string& name, LossTask of) : task(of) {
    const GoldenTensors file(golden_folder() / "losses" / name);
    const std::vector<float> ablated = file.floats("ablated");
    for (const float loss : file.floats("base")) base.push_back(loss);
    for (const float count : file.floats("tokens")) tokens.push_back(std::llround(count));
    const size_t n = base.size();
    for (size_t begin = 0; begin < ablated.size(); begin += n) {
      std::vector<double>& row = differences.emplace_back();
      for (size_t x = 0; x < n; ++x) row.push_back(double{ablated[begin + x]} - base[x]);
    }
  }

  double total() const {
    return static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), int64_t{0}));
  }

  double change(size_t head) const {
    return std::accumulate(differences[head].begin(), differences[head].end(), 0.) / total();
  }
};

/// A study of n sentences that are drawn from recorded ones, with repetition.
class ResampledLosses : public LossSource {
 public:
  ResampledLosses(const RecordedLosses& losses, int64_t n, Random& random) : losses_(losses) {
    for (int64_t i = 0; i < n; ++i) {
      drawn_.push_back(random.below(static_cast<uint32_t>(losses.tokens.size())));
      tokens_.push_back(losses.tokens[drawn_.back()]);
    }
  }

  LossTask task() const override { return losses_.task; }
  std::span<const int64_t> tokens() const override { return tokens_; }
  std::span<const float> gold() const override { return {}; }

  SweepValues run(std::span<const Ablation> ablations, std::span<const int64_t> examples,
                  const Progress&) override {
    SweepValues values;
    for (const int64_t x : examples) values.base.push_back(losses_.base[drawn_[x]]);
    for (const Ablation& ablation : ablations) {
      std::vector<double>& row = values.ablated.emplace_back(values.base);
      for (size_t i = 0; i < examples.size(); ++i) {
        row[i] += losses_.differences[ablation.heads[0]][drawn_[examples[i]]];
      }
    }
    return values;
  }

  double passes(std::span<const Ablation>, std::span<const int64_t>) const override { return 0; }
  double work_of_pass() const override { return 1; }

 private:
  const RecordedLosses& losses_;
  std::vector<uint32_t> drawn_;
  std::vector<int64_t> tokens_;
};

/// The share of simulated studies of n sentences whose last interval holds the change of all.
double coverage(const RecordedLosses& losses, int64_t n, int64_t studies) {
  int64_t held = 0;
  for (int64_t study = 0; study < studies; ++study) {
    Random random(static_cast<uint64_t>(study), 17);
    const size_t head = random.below(static_cast<uint32_t>(losses.differences.size()));
    ResampledLosses sample(losses, n, random);
    const std::vector<Ablation> ablations = {{.heads = {static_cast<int64_t>(head)}}};
    const AdaptiveResult result =
        ablate_adaptively(sample, ablations, {.seed = static_cast<uint64_t>(study)});
    const ConfidenceInterval interval = *result.ablations[0].interval;
    const double truth = losses.change(head);
    held += interval.low <= truth && truth <= interval.high;
  }
  return static_cast<double>(held) / static_cast<double>(studies);
}

TEST(InterimLooks, SpendFivePercentInAll) {
  for (const int64_t more : {0, 1000}) {
    const std::vector<Look> looks = interim_looks(LossTask::lm, 106, more);
    double all = 0;
    for (const Look& look : looks) all += look.alpha;
    EXPECT_NEAR(all, 0.05, 1e-12);
    EXPECT_EQ(looks.front().examples, 16);
    EXPECT_EQ(looks.back().examples, 106 + more);
  }
  EXPECT_EQ(interim_looks(LossTask::lm, 16).size(), 1);
  EXPECT_EQ(interim_looks(LossTask::similarity, 106).front().examples, 32);
}

TEST(AdaptiveCoverage, OfFidelityIsAtLeast93Percent) {
  const RecordedLosses losses("minilm.fidelity.safetensors", LossTask::fidelity);
  for (const int64_t n : {32, 53, 106}) EXPECT_GE(coverage(losses, n, 2000), 0.93) << n;
}

TEST(AdaptiveCoverage, OfNextTokensIsAtLeast93Percent) {
  const RecordedLosses losses("stories15m.lm.safetensors", LossTask::lm);
  for (const int64_t n : {32, 53, 106}) EXPECT_GE(coverage(losses, n, 2000), 0.93) << n;
}

}  // namespace
}  // namespace headwise
