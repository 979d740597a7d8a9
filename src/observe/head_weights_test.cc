// What weights say about heads, for weights that were made for it, and against plain products.
#include "headwise/observe/head_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/linear_algebra.h"
#include "headwise/core/parallel.h"
#include "observe/composition.h"
#include "observe/small_bert_testing.h"

namespace headwise::tests {
namespace {

Evidence observed(const Model& model, uint64_t seed = 0) {
  Evidence evidence;
  for (const AttentionSite& site : model.attentions()) {
    for (int64_t h = 0; h < std::ssize(site.heads); ++h) {
      evidence.heads.push_back({.head = site.head_name(h)});
    }
  }
  observe_weights(model, seed, evidence);
  return evidence;
}

double measured(const Evidence& evidence, const char* head, const char* name) {
  const Measure* const measure = evidence.head(head).measures.find(name);
  return measure == nullptr ? NAN : measure->value;
}

/// Row i of a head is `values[i]` at column i + `shift`.
void set_diagonal(View<float, 2> rows, const std::vector<float>& values, int64_t shift = 0) {
  for (int64_t i = 0; i < rows.extent(0); ++i) {
    for (int64_t j = 0; j < rows.extent(1); ++j) rows(i, j) = j == i + shift ? values[i] : 0;
  }
}

TEST(HeadWeights, RanksAndCopyingOfKnownWeights) {
  SmallBert bert({});  // two heads, four wide
  set_diagonal(bert.head(0, "self.query", 0), {1, 1, 1, 1});
  set_diagonal(bert.head(0, "self.key", 0), {1, 2, 4, 8});
  set_diagonal(bert.head(0, "self.value", 0), {1, 1, 2, 3});
  set_diagonal(bert.head(0, "output.dense", 0), {1, 1, .5f, -1 / 3.f});  // copies 3, inverts 1
  set_diagonal(bert.head(0, "self.query", 1), {5, 0, 0, 0}, 4);
  set_diagonal(bert.head(0, "self.key", 1), {3, 1, 1, 1});
  // Turns two directions by 60 degrees, drops the others.
  const View<float, 2> value = bert.head(0, "self.value", 1),
                       output = bert.head(0, "output.dense", 1);
  set_diagonal(value, {1, 1, 0, 0});
  set_diagonal(output, {.5f, .5f, 1, 1});
  output(0, 1) = std::sqrt(.75f);
  output(1, 0) = -std::sqrt(.75f);
  const Evidence evidence = observed(bert.load());
  double entropy = 0;  // of 1, 2, 4, 8
  for (const double x : {1., 2., 4., 8.}) entropy -= x / 15 * std::log(x / 15);
  EXPECT_NEAR(measured(evidence, "L0.H0", "qk_rank"), std::exp(entropy), 1e-6);
  EXPECT_NEAR(measured(evidence, "L0.H0", "ov_rank"), 4, 1e-6);
  EXPECT_NEAR(measured(evidence, "L0.H0", "copying"), 0.5, 1e-7);
  EXPECT_NEAR(measured(evidence, "L0.H1", "qk_rank"), 1, 1e-9);
  EXPECT_NEAR(measured(evidence, "L0.H1", "ov_rank"), 2, 1e-6);
  EXPECT_NEAR(measured(evidence, "L0.H1", "copying"), 0.5, 1e-7);  // cos 60°
}

/// Directions that a head does not use are none of its space.
TEST(HeadWeights, SpacesOfHeadsThatUseFewDirections) {
  SmallBert bert({.width = 12, .heads = 3});
  set_diagonal(bert.head(0, "self.query", 0), {1, 3, 0, 0});
  set_diagonal(bert.head(0, "self.query", 1), {1, 1, 2, 9});
  set_diagonal(bert.head(0, "self.query", 2), {1, 1, 1, 1}, 3);
  set_diagonal(bert.head(0, "output.dense", 0), {0, 0, 0, 0});
  const Evidence evidence = observed(bert.load());
  const PairMatrix& overlap = evidence.pairs.at("subspace_overlap/q").at("L0");
  const PairMatrix& angle = evidence.pairs.at("principal_angle/q").at("L0");
  EXPECT_NEAR(overlap.at(0, 1), 1, 1e-6);
  EXPECT_NEAR(overlap.at(0, 2), 0, 1e-12);
  EXPECT_NEAR(overlap.at(1, 2), 0.25, 1e-6);
  EXPECT_EQ(overlap.at(1, 1), 1);
  EXPECT_NEAR(angle.at(0, 1), 0, 1e-7);
  EXPECT_NEAR(angle.at(0, 2), std::acos(0.), 1e-6);
  EXPECT_NEAR(angle.at(1, 2), 0, 1e-7);
  EXPECT_EQ(angle.at(2, 2), 0);
  // A head that writes nothing has no space and no copying.
  const PairMatrix& written = evidence.pairs.at("subspace_overlap/o").at("L0");
  EXPECT_TRUE(std::isnan(written.at(0, 0)) && std::isnan(written.at(0, 1)));
  EXPECT_EQ(written.at(1, 1), 1);
  EXPECT_EQ(measured(evidence, "L0.H0", "ov_rank"), 0);
  EXPECT_EQ(evidence.head("L0.H0").measures.find("copying"), nullptr);
  EXPECT_FALSE(evidence.pairs.contains("composition/q"));  // there is one layer only
}

TEST(HeadWeights, EqualHeadsHaveEqualSpaces) {
  SmallBert bert({.width = 24, .heads = 3, .layers = 2});
  for (const char* part : kProjections) copy(bert.head(0, part, 0), bert.head(0, part, 2));
  const Evidence evidence = observed(bert.load());
  for (const std::string side : {"q", "k", "v", "o"}) {
    const PairMatrix& overlap = evidence.pairs.at("subspace_overlap/" + side).at("L0");
    const PairMatrix& angle = evidence.pairs.at("principal_angle/" + side).at("L0");
    expect_symmetric(overlap);
    expect_symmetric(angle);
    EXPECT_NEAR(overlap.at(0, 2), 1, 1e-6);
    EXPECT_NEAR(angle.at(0, 2), 0, 1e-6);
    EXPECT_LT(overlap.at(0, 1), 0.9);
    EXPECT_GT(angle.at(0, 1), 0.01);
  }
  for (const std::string side : {"q", "k", "v"}) {
    const PairMatrix& reads = evidence.pairs.at("composition/" + side).at("all");
    for (int64_t b = 3; b < 6; ++b) EXPECT_NEAR(reads.at(0, b), reads.at(2, b), 1e-6);
  }
}

TEST(HeadWeights, PermutedHeadsGivePermutedMatrices) {
  SmallBert bert({.width = 24, .heads = 3, .layers = 2});
  const Evidence before = observed(bert.load());
  for (const char* part : kProjections) swap(bert.head(1, part, 0), bert.head(1, part, 2));
  const Evidence after = observed(bert.load());
  const std::vector<int64_t> of_layer = {2, 1, 0}, of_model = {0, 1, 2, 5, 4, 3};
  for (const auto& [name, groups] : before.pairs) {
    for (const auto& [group, matrix] : groups) {
      const PairMatrix& got = after.pairs.at(name).at(group);
      if (group == "L0") expect_near(got, matrix, 0);
      if (group == "L1") expect_near(got, permuted(matrix, of_layer), 2e-6);
      if (group == "all") expect_near(got, permuted(matrix, of_model), 1e-6);
    }
  }
  EXPECT_EQ(measured(after, "L1.H0", "qk_rank"), measured(before, "L1.H2", "qk_rank"));
  EXPECT_EQ(measured(after, "L1.H2", "copying"), measured(before, "L1.H0", "copying"));
}

DoubleMatrix head_matrix(SmallBert& bert, int64_t layer, const char* part, int64_t head) {
  return DoubleMatrix(View<const float, 2>(bert.head(layer, part, head)));
}

/// Of a width that needs several strips, and no whole number of them.
TEST(HeadWeights, CompositionEqualsThatOfWholeMatrices) {
  const SmallBertShape shape{.width = 150, .heads = 3, .layers = 3};
  SmallBert bert(shape);
  const Evidence evidence = observed(bert.load());
  const double random =
      random_composition({.width = 150, .source = 150, .values = 50, .reads = 50}, 0);
  const auto norm = [](const DoubleMatrix& x) { return std::sqrt(inner_product(x, x)); };
  const char* const parts[] = {"self.query", "self.key", "self.value"};
  for (int side = 0; side < 3; ++side) {
    const PairMatrix& matrix =
        evidence.pairs.at(std::string("composition/") + "qkv"[side]).at("all");
    for (int64_t a = 0; a < 9; ++a) {
      const DoubleMatrix ov = transposed_product(head_matrix(bert, a / 3, "output.dense", a % 3),
                                                 head_matrix(bert, a / 3, "self.value", a % 3));
      for (int64_t b = 0; b < 9; ++b) {
        if (a / 3 >= b / 3) {
          EXPECT_TRUE(std::isnan(matrix.at(a, b)));
          continue;
        }
        const DoubleMatrix read = head_matrix(bert, b / 3, parts[side], b % 3);
        const double expected = norm(product(read, ov)) / norm(read) / norm(ov) - random;
        EXPECT_NEAR(matrix.at(a, b), expected, 1e-6) << a << ' ' << b;
      }
    }
  }
}

/// Where a writes one direction, r² is the share of W_b in it: beta distributed.
TEST(HeadWeights, MeanCompositionOfRandomMatrices) {
  for (const auto& [C, D] : {std::pair<int64_t, int64_t>{8, 4}, {16, 2}, {3, 1}, {64, 16}}) {
    const double half = static_cast<double>(D) / 2, all = half * static_cast<double>(C);
    const double mean = std::exp(std::lgamma(half + .5) - std::lgamma(half) + std::lgamma(all) -
                                 std::lgamma(all + .5));
    const auto numbers = static_cast<double>(2 * C + D * C);
    const double error = std::sqrt((1 / static_cast<double>(C) - mean * mean) / (2e6 / numbers));
    for (const uint64_t seed : {0u, 1u}) {
      EXPECT_NEAR(random_composition({.width = C, .source = C, .values = 1, .reads = D}, seed),
                  mean, 4 * error)
          << C << ' ' << D;
    }
  }
  // Nothing but 1 is possible in one dimension.
  EXPECT_NEAR(random_composition({.width = 1, .source = 5, .values = 3, .reads = 2}, 0), 1, 1e-12);
}

TEST(HeadWeights, TheSameBitsForAnyNumberOfThreads) {
  const Model model = SmallBert({.width = 48, .heads = 4, .layers = 2}).load();
  const int before = threads();
  set_threads(1);
  const Evidence one = observed(model);
  set_threads(3);
  const Evidence three = observed(model);
  set_threads(before);
  for (const auto& [name, groups] : one.pairs) {
    for (const auto& [group, matrix] : groups) {
      expect_near(three.pairs.at(name).at(group), matrix, 0);
    }
  }
  EXPECT_EQ(one.heads, three.heads);
}

}  // namespace
}  // namespace headwise::tests
