// Intervals of ablations that stop when their standing is decided hold as often as they promise.
#include "observe/race.h"

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
  std::vector<std::vector<double>> differences;  // [heads][n], ablated minus base
  double loss = 0;                               // of the unchanged model

  RecordedLosses(const std::string& name, LossTask of) : task(of) {
    const GoldenTensors file(golden_folder() / "losses" / name);
    const std::vector<float> base = file.floats("base"), ablated = file.floats("ablated");
    for (const float count : file.floats("tokens")) tokens.push_back(std::llround(count));
    const size_t n = base.size();
    for (size_t begin = 0; begin < ablated.size(); begin += n) {
      std::vector<double>& row = differences.emplace_back();
      for (size_t x = 0; x < n; ++x) row.push_back(double{ablated[begin + x]} - base[x]);
    }
    loss = std::accumulate(base.begin(), base.end(), 0.) / total();
  }

  double total() const {
    return static_cast<double>(std::accumulate(tokens.begin(), tokens.end(), int64_t{0}));
  }

  double change(size_t head) const {
    return std::accumulate(differences[head].begin(), differences[head].end(), 0.) / total();
  }
};

/// The share of simulated studies of n sentences whose last interval holds the change of all.
double coverage(const RecordedLosses& losses, int64_t n, int64_t studies) {
  const double tolerance = tolerance_of(losses.task, losses.loss);
  int64_t held = 0;
  for (int64_t study = 0; study < studies; ++study) {
    Random random(static_cast<uint64_t>(study), 17);
    const size_t head = random.below(static_cast<uint32_t>(losses.differences.size()));
    std::vector<double> d;
    std::vector<int64_t> tokens;
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t x = random.below(static_cast<uint32_t>(losses.tokens.size()));
      d.push_back(losses.differences[head][x]);
      tokens.push_back(losses.tokens[x]);
    }
    ConfidenceInterval interval;
    for (const Look& look : race_looks(n)) {
      interval = estimate_ratio(std::span(d).first(look.examples),
                                std::span(tokens).first(look.examples), look.alpha)
                     .interval;
      if (standing(interval, tolerance, losses.task) != Standing::undecided) break;
    }
    const double truth = losses.change(head);
    held += interval.low <= truth && truth <= interval.high;
  }
  return static_cast<double>(held) / static_cast<double>(studies);
}

TEST(RaceLooks, SpendFivePercentInAll) {
  for (const int64_t more : {0, 1000}) {
    const std::vector<Look> looks = race_looks(106, more);
    double all = 0;
    for (const Look& look : looks) all += look.alpha;
    EXPECT_NEAR(all, 0.05, 1e-12);
    EXPECT_EQ(looks.front().examples, 32);
    EXPECT_EQ(looks.back().examples, 106 + more);
  }
  EXPECT_EQ(race_looks(20).size(), 1);
}

TEST(RaceCoverage, OfFidelityIsAtLeast93Percent) {
  const RecordedLosses losses("minilm.fidelity.safetensors", LossTask::fidelity);
  for (const int64_t n : {32, 53, 106}) EXPECT_GE(coverage(losses, n, 2000), 0.93) << n;
}

TEST(RaceCoverage, OfNextTokensIsAtLeast93Percent) {
  const RecordedLosses losses("stories15m.lm.safetensors", LossTask::lm);
  for (const int64_t n : {32, 53, 106}) EXPECT_GE(coverage(losses, n, 2000), 0.93) << n;
}

}  // namespace
}  // namespace headwise
