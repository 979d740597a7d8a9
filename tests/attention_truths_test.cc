// The basic facts about heads, as programs that can be run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "headwise/core/random.h"
#include "headwise/kernels/attention.h"
#include "headwise/model/multi_head_attention.h"
#include "kernels/attention_bounds.h"
#include "kernels/attention_testing.h"

namespace headwise::tests {
namespace {

/// concat(head_1, …, head_H) W_O + b = b + sum_h head_h W_O^h: what the layer gives with every head
/// is the sum of what it gives with each of them alone.
TEST(AttentionTruths, ConcatenationTimesWoIsASumOverHeads) {
  constexpr int64_t kRows = 11, kHeads = 4, kWidth = 24;
  MultiHeadAttentionWeights weights({.width = kWidth, .heads = kHeads});
  Random random(3);
  for (float& w : weights.all()) w = 0.3f * random.normal();
  const MultiHeadAttention layer(std::move(weights));
  Array<float, 2> x({kRows, kWidth});
  x.fill([&] { return random.normal(); });
  const std::vector<int64_t> offsets = {0, kRows};
  const auto with = [&](std::vector<float> gates) {
    Array<float, 2> out({kRows, kWidth});
    MultiHeadAttention::Pass pass;
    Attention params{.q_offsets = offsets};
    params.gates = {gates.data(), {1, kHeads}};
    layer.forward(x.view(), {}, params, pass, out.view());
    return out.values();
  };
  const std::vector<float> whole = with({1, 1, 1, 1}), bias = with({0, 0, 0, 0});
  std::vector<double> sum(bias.begin(), bias.end()), size(bias.size());
  for (int64_t h = 0; h < kHeads; ++h) {
    std::vector<float> gates(kHeads);
    gates[h] = 1;
    const std::vector<float> alone = with(gates);
    for (size_t i = 0; i < sum.size(); ++i) {
      sum[i] += double{alone[i]} - bias[i];
      size[i] += std::abs(double{alone[i]}) + std::abs(bias[i]);
    }
  }
  // Each output is a sum of kWidth products and a bias, rounded in float.
  const double rounding = (kWidth + 2) * 0x1p-24;
  for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(whole[i], sum[i], 4 * rounding * size[i]);
}

/// One head's weights on `keys` keys whose scores are q[j], since the keys are the unit vectors.
std::vector<std::vector<float>> weights_of_scores(const std::vector<std::vector<float>>& scores) {
  const auto heads = static_cast<int64_t>(scores.size());
  const auto keys = static_cast<int64_t>(scores[0].size());
  std::vector<float> q, k(keys * keys);
  for (const auto& row : scores) q.insert(q.end(), row.begin(), row.end());
  for (int64_t j = 0; j < keys; ++j) k[j * keys + j] = 1;
  const std::vector<int64_t> q_offsets = {0, 1}, k_offsets = {0, keys};
  const std::vector<int32_t> kv_head(heads, 0);
  Attention attention{.q = {q.data(), {1, heads, keys}},
                      .k = {k.data(), {keys, 1, keys}},
                      .v = {k.data(), {keys, 1, keys}}};
  attention.q_offsets = q_offsets;
  attention.k_offsets = k_offsets;
  attention.kv_head = kv_head;
  attention.scale = 1.0f;
  // The values are unit vectors too, so the output is the row of weights once more.
  Array<float, 3> out({1, heads, keys});
  attention_forward(attention, out.view());
  const AttentionMaps maps = attention_maps(attention, std::vector<int64_t>{0});
  std::vector<std::vector<float>> weights;
  for (int64_t h = 0; h < heads; ++h) {
    const auto row = maps.row(0, h);
    weights.emplace_back(row.begin(), row.end());
    for (int64_t j = 0; j < keys; ++j) EXPECT_NEAR(out.view()(0, h, j), row[j], 1e-6);
  }
  return weights;
}

TEST(AttentionTruths, TwoHeadsLookFirmlyAtTwoPlaces) {
  const auto weights = weights_of_scores({{6, 0, 0, 0}, {0, 6, 0, 0}});
  EXPECT_GT(weights[0][0], 0.9f);
  EXPECT_GT(weights[1][1], 0.9f);
}

/// The same two heads side by side in one softmax: their scores add up, and neither place gets its
/// 0.9.
TEST(AttentionTruths, OneSoftmaxOverBothIsNotTheTwo) {
  const auto separate = weights_of_scores({{6, 0, 0, 0}, {0, 6, 0, 0}});
  const auto together = weights_of_scores({{6, 6, 0, 0}})[0];  // q = [q1, q2], k_j = [e_j, e_j]
  EXPECT_LT(std::max(together[0], together[1]), 0.5f);
  EXPECT_GT(std::abs(together[0] - separate[0][0]), 0.4f);
  EXPECT_GT(std::abs(together[1] - separate[1][1]), 0.4f);
}

/// One softmax over the heads' features side by side is one distribution: whatever W_Q and W_K map
/// them, its weights sum to 1, so no two keys can both have more than 0.9; not even more than 0.5.
TEST(AttentionTruths, OneSoftmaxCannotWhateverItsProjection) {
  constexpr int64_t kWidth = 8, kKeys = 4;
  const std::vector<int64_t> q_offsets = {0, 1}, k_offsets = {0, kKeys};
  double best = 0;
  for (uint64_t draw = 0; draw < 2000; ++draw) {
    Random random(4, draw);
    const float size = std::exp(4 * random.uniform() - 2);
    const auto project = [&](const std::vector<float>& x, const std::vector<float>& w) {
      std::vector<float> y(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        for (int64_t d = 0; d < kWidth; ++d) {
          y[i] += x[i / kWidth * kWidth + d] * w[d * kWidth + i % kWidth];
        }
      }
      return y;
    };
    std::vector<float> x(kWidth), y(kKeys * kWidth), wq(kWidth * kWidth), wk(kWidth * kWidth);
    for (auto* values : {&x, &y})
      std::generate(values->begin(), values->end(), [&] { return random.normal(); });
    for (auto* values : {&wq, &wk})
      std::generate(values->begin(), values->end(), [&] { return size * random.normal(); });
    const std::vector<float> q = project(x, wq), k = project(y, wk);
    Attention attention{.q = {q.data(), {1, 1, kWidth}},
                        .k = {k.data(), {kKeys, 1, kWidth}},
                        .v = {k.data(), {kKeys, 1, kWidth}}};
    attention.q_offsets = q_offsets;
    attention.k_offsets = k_offsets;
    const AttentionMaps maps = attention_maps(attention, std::vector<int64_t>{0});
    const auto p = maps.row(0, 0);
    const double rounding = attention_bounds(attention, attention.v).weight;
    EXPECT_LE(double{p[0]} + p[1] + p[2] + p[3], 1 + rounding);
    best = std::max(best, std::min(p[0], p[1]) - rounding);
  }
  EXPECT_LE(best, 0.5);
  EXPECT_GT(best, 0.4) << "the draws do come near the bound";
}

using Row = std::array<double, 6>;
constexpr Row kSyntax = {0, .8, 0, 0, 0, .2};
constexpr Row kPosition = {.3, .3, .2, .2, 0, 0};
constexpr Row kSemantics = {0, .3, 0, 0, 0, .7};
constexpr std::array<Row, 3> kWanted = {kSyntax, kPosition, kSemantics};

double distance(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t j = 0; j < a.size(); ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
  return std::sqrt(sum);
}

/// log p, and for p = 0 a score so low that its weight is 0.
std::vector<float> scores_for(const Row& row) {
  std::vector<float> scores;
  for (const double p : row) scores.push_back(p > 0 ? static_cast<float>(std::log(p)) : -1000.0f);
  return scores;
}

Row mix(double a, double b, double c) {
  Row row;
  for (size_t j = 0; j < row.size(); ++j) {
    row[j] = a * kSyntax[j] + b * kPosition[j] + c * kSemantics[j];
  }
  return row;
}

TEST(AttentionTruths, ThreeHeadsFitThreeRows) {
  const auto weights =
      weights_of_scores({scores_for(kSyntax), scores_for(kPosition), scores_for(kSemantics)});
  for (size_t h = 0; h < 3; ++h) {
    for (size_t j = 0; j < 6; ++j) EXPECT_NEAR(weights[h][j], kWanted[h][j], 1e-6);
  }
}

/// The one row with the least summed squared distance is the mean; it is far from all three.
TEST(AttentionTruths, OneHeadAveragesThemAway) {
  const Row mean = mix(1 / 3.0, 1 / 3.0, 1 / 3.0);
  const auto weights = weights_of_scores({scores_for(mean)});
  Row got;
  std::copy(weights[0].begin(), weights[0].end(), got.begin());
  EXPECT_NEAR(distance(got, kSyntax), 0.3742, 1e-4);
  EXPECT_NEAR(distance(got, kPosition), 0.4397, 1e-4);
  EXPECT_NEAR(distance(got, kSemantics), 0.4546, 1e-4);
}

/// The row whose worst distance is least lies in the triangle of the three (projecting on it brings
/// a point nearer to every corner), so a search over mixtures finds it. No row can do better than
/// half the largest distance between two of them: the triangle inequality.
TEST(AttentionTruths, NoSingleRowIsNearAllThree) {
  constexpr int kSteps = 400;
  double best = 1;
  for (int a = 0; a <= kSteps; ++a) {
    for (int b = 0; a + b <= kSteps; ++b) {
      const Row row = mix(double(a) / kSteps, double(b) / kSteps, double(kSteps - a - b) / kSteps);
      double worst = 0;
      for (const Row& wanted : kWanted) worst = std::max(worst, distance(row, wanted));
      best = std::min(best, worst);
    }
  }
  const double apart = distance(kPosition, kSemantics);
  EXPECT_NEAR(apart, 0.8124, 1e-4);
  EXPECT_GE(best, apart / 2);
  EXPECT_NEAR(best, 0.42, 0.03);
}

}  // namespace
}  // namespace headwise::tests
