// Cross entropy against PyTorch, its definition in double and finite differences, on every SIMD
// target.
#include "headwise/kernels/cross_entropy.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/op_testing.h"

namespace headwise {
namespace {

class CrossEntropyOp : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, CrossEntropyOp, testing::ValuesIn(simd_targets()), target_name);

View<float, 1> vector_of(const Matrix& matrix) {
  return {matrix.view.data(), {matrix.view.extent(1)}};
}

/// One in five is not scored; or all are, in problems of at most nine rows.
std::vector<int32_t> sparse_targets(int64_t rows, int64_t classes) {
  std::vector<int32_t> targets;
  for (int64_t t = 0; t < rows; ++t) {
    targets.push_back(rows > 9 && t % 5 == 3 ? kIgnoreIndex
                                             : static_cast<int32_t>((t * t + 1) % classes));
  }
  return targets;
}

std::vector<double> logits_of(const CrossEntropy& problem, int64_t t) {
  std::vector<double> logits;
  for (int64_t v = 0; v < problem.weights.extent(0); ++v) {
    double sum = problem.bias.data() == nullptr ? 0 : problem.bias(v);
    for (int64_t c = 0; c < problem.x.extent(1); ++c) {
      sum += double{problem.x(t, c)} * problem.weights(v, c);
    }
    logits.push_back(sum);
  }
  return logits;
}

double log_sum(const std::vector<double>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double x : logits) sum += std::exp(x - most);
  return most + std::log(sum);
}

/// As torch.nn.functional.cross_entropy: (1 - smoothing) nll + smoothing / V Σ_v -log p(v).
double loss_of(const std::vector<double>& logits, int32_t target, double smoothing) {
  const double all = log_sum(logits);
  double shared = 0;
  for (const double x : logits) shared += (all - x) / static_cast<double>(logits.size());
  return (1 - smoothing) * (all - logits[target]) + smoothing * shared;
}

CrossEntropyLoss loss_ref(const CrossEntropy& problem) {
  CrossEntropyLoss result;
  for (int64_t t = 0; t < problem.x.extent(0); ++t) {
    const int32_t target = problem.targets[t];
    if (target < 0) continue;
    const auto logits = logits_of(problem, t);
    result.loss += loss_of(logits, target, problem.label_smoothing);
    result.nll += loss_of(logits, target, 0);
    result.scored += 1;
    result.correct += std::max_element(logits.begin(), logits.end()) - logits.begin() == target;
  }
  return result;
}

/// The gradient for the logits of one row, by central differences.
std::vector<double> dlogits_of(const CrossEntropy& problem, int64_t t, double scale) {
  const double h = 1e-4;
  auto logits = logits_of(problem, t);
  std::vector<double> result(logits.size());
  if (problem.targets[t] < 0) return result;
  for (size_t v = 0; v < logits.size(); ++v) {
    const double at = logits[v];
    logits[v] = at + h;
    const double above = loss_of(logits, problem.targets[t], problem.label_smoothing);
    logits[v] = at - h;
    const double below = loss_of(logits, problem.targets[t], problem.label_smoothing);
    logits[v] = at;
    result[v] = scale * (above - below) / (2 * h);
  }
  return result;
}

TEST_P(CrossEntropyOp, IsThatOfPyTorch) {
  const float x[] = {1, -2, 0.5f, 0, 3, -1, 0.25f, 0.5f, -0.75f};
  const float weights[] = {0.5f, -0.5f, 1, 1, 0.25f, -1, -0.75f, 1, 0.5f, 0, -1, 0.25f};
  const float bias[] = {0.1f, -0.2f, 0.3f, 0};
  const int32_t targets[] = {3, kIgnoreIndex, 1};
  float dx[9], dweights[12] = {}, dbias[4] = {};
  const CrossEntropyGradients gradients{
      .dx = {dx, {3, 3}}, .dweights = {dweights, {4, 3}}, .dbias = {dbias, {4}}};
  const auto loss = cross_entropy({.x = {x, {3, 3}},
                                   .weights = {weights, {4, 3}},
                                   .bias = {bias, {4}},
                                   .targets = targets,
                                   .label_smoothing = 0.1f},
                                  &gradients);
  // torch 2.15: F.cross_entropy(x @ w.T + b, target, label_smoothing=0.1, reduction="sum")
  EXPECT_NEAR(loss.loss, 1.6361567974090576, 4e-7);
  EXPECT_NEAR(loss.nll, 1.3692817687988281, 4e-7);
  EXPECT_EQ(loss.scored, 2);
  const float expected_dx[] = {
      0.2570999562740326f,  0.2112603783607483f,   0.29985755681991577f, 0, 0, 0,
      -0.5398350954055786f, 0.026409074664115906f, 0.607467532157898f};
  for (int i = 0; i < 9; ++i) EXPECT_NEAR(dx[i], expected_dx[i], 4 * kUlp) << i;
  const float expected_dw[] = {0.4604567885398865f,   -0.848994255065918f,  0.16729901731014252f,
                               -0.07674852013587952f, -0.2409718632698059f, 0.30678603053092957f,
                               0.04178493097424507f,  0.15819790959358215f, -0.19065432250499725f,
                               -0.4254932403564453f,  0.9317682981491089f,  -0.28343069553375244f};
  for (int i = 0; i < 12; ++i) EXPECT_NEAR(dweights[i], expected_dw[i], 4 * kUlp) << i;
  const float expected_db[] = {0.5143962502479553f, -0.3726001977920532f, 0.22311075031757355f,
                               -0.3649068772792816f};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(dbias[i], expected_db[i], 4 * kUlp) << i;
}

TEST_P(CrossEntropyOp, MatchesTheDefinitionAndFiniteDifferences) {
  struct Case {
    int64_t rows, width, classes;
    float smoothing;
    bool bias;
  };
  for (const auto& [rows, width, classes, smoothing, with_bias] :
       {Case{0, 3, 4, 0, true}, Case{1, 1, 1, 0.1f, true}, Case{5, 0, 3, 0, true},
        Case{9, 17, 2, 0, false}, Case{40, 12, 35, 0.1f, true}, Case{40, 12, 35, 1, false}}) {
    const Matrix x(rows, width, 1), weights(classes, width, 2), bias(1, classes, 3);
    const auto targets = sparse_targets(rows, classes);
    const CrossEntropy problem{.x = x.view,
                               .weights = weights.view,
                               .bias = with_bias ? vector_of(bias) : View<float, 1>(),
                               .targets = targets,
                               .label_smoothing = smoothing};
    const float scale = 0.25f;
    const Matrix before(classes, width, 4), before_bias(1, classes, 5);
    Matrix dx(rows, width, 6), dweights(before), dbias(before_bias);
    const CrossEntropyGradients gradients{
        .scale = scale, .dx = dx.view, .dweights = dweights.view, .dbias = vector_of(dbias)};
    const auto got = cross_entropy(problem, &gradients);
    const auto expected = loss_ref(problem);
    // A logit of `width` terms of at most 1 rounds by an ulp of width at most.
    const double logit_error = kUlp * static_cast<double>(width + 4);
    const auto scored = static_cast<double>(expected.scored);
    EXPECT_NEAR(got.loss, expected.loss, scored * 2 * logit_error);
    EXPECT_NEAR(got.nll, expected.nll, scored * 2 * logit_error);
    EXPECT_EQ(got.scored, expected.scored);
    EXPECT_EQ(got.correct, expected.correct);
    const auto forward = cross_entropy(problem, nullptr);
    EXPECT_EQ(forward.loss, got.loss);
    EXPECT_EQ(forward.correct, got.correct);

    std::vector<std::vector<double>> dlogits;
    for (int64_t t = 0; t < rows; ++t) dlogits.push_back(dlogits_of(problem, t, scale));
    // Differences are good to 1e-8, what is summed up of them to as much for each term.
    const double each = 1e-8 + scale * (2 * logit_error + 8 * kUlp);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t c = 0; c < width; ++c) {
        double sum = 0;
        for (int64_t v = 0; v < classes; ++v) sum += dlogits[t][v] * weights.view(v, c);
        ASSERT_NEAR(dx.view(t, c), sum, each * static_cast<double>(classes)) << t << ' ' << c;
        if (targets[t] < 0) {
          ASSERT_EQ(dx.view(t, c), 0);
        }
      }
    }
    for (int64_t v = 0; v < classes; ++v) {
      double sum = before_bias.view(0, v);
      for (int64_t t = 0; t < rows; ++t) sum += dlogits[t][v];
      ASSERT_NEAR(dbias.view(0, v), sum, kUlp + each * static_cast<double>(rows)) << v;
      for (int64_t c = 0; c < width; ++c) {
        double product = before.view(v, c);
        for (int64_t t = 0; t < rows; ++t) product += dlogits[t][v] * x.view(t, c);
        ASSERT_NEAR(dweights.view(v, c), product, kUlp + each * static_cast<double>(rows));
      }
    }
    EXPECT_TRUE(dx.gaps_untouched());
    EXPECT_TRUE(dweights.gaps_untouched());
  }
}

TEST_P(CrossEntropyOp, OverManyTilesThreadsChangeNoBit) {
  const int64_t rows = 2500, width = 24, classes = 301;  // three tiles
  const Matrix x(rows, width, 1), weights(classes, width, 2), bias(1, classes, 3);
  const auto targets = sparse_targets(rows, classes);
  const CrossEntropy problem{.x = x.view,
                             .weights = weights.view,
                             .bias = vector_of(bias),
                             .targets = targets,
                             .label_smoothing = 0.1f};
  const Matrix zeros(classes, width, 4), zero_bias(1, classes, 5);
  const auto run = [&](int count, Matrix& dx, Matrix& dweights, Matrix& dbias) {
    set_threads(count);
    const CrossEntropyGradients gradients{
        .dx = dx.view, .dweights = dweights.view, .dbias = vector_of(dbias)};
    return cross_entropy(problem, &gradients);
  };
  Matrix dx(x), dweights(zeros), dbias(zero_bias);
  const auto loss = run(1, dx, dweights, dbias);
  EXPECT_NEAR(loss.loss, loss_ref(problem).loss, 2000 * 2 * kUlp * static_cast<double>(width));
  EXPECT_EQ(loss.correct, loss_ref(problem).correct);
  for (const int count : {2, 3, 7}) {
    Matrix dx_again(x), dweights_again(zeros), dbias_again(zero_bias);
    EXPECT_EQ(run(count, dx_again, dweights_again, dbias_again).loss, loss.loss) << count;
    EXPECT_TRUE(dx.same_bits(dx_again)) << count;
    EXPECT_TRUE(dweights.same_bits(dweights_again)) << count;
    EXPECT_TRUE(dbias.same_bits(dbias_again)) << count;
  }
}

TEST_P(CrossEntropyOp, BlankGradientsAreThoseAddedToZeros) {
  const int64_t rows = 2500, width = 24, classes = 301;  // three tiles
  const Matrix x(rows, width, 1), weights(classes, width, 2);
  const auto targets = sparse_targets(rows, classes);
  Matrix added(classes, width, 3), written(classes, width, 4);
  for (Matrix* sums : {&added, &written}) {
    for (int64_t v = 0; v < classes; ++v) std::fill_n(&sums->view(v, 0), width, 0.f);
    const CrossEntropyGradients gradients{.dweights = sums->view,
                                          .zero_dweights = sums == &written};
    cross_entropy({.x = x.view, .weights = weights.view, .targets = targets}, &gradients);
  }
  EXPECT_TRUE(added.same_bits(written));
}

TEST_P(CrossEntropyOp, PackedWeightsGiveTheBitsOfPlainOnes) {
  const int64_t rows = 1100, width = 24, classes = 301;  // two tiles
  const Matrix x(rows, width, 1), weights(classes, width, 2), bias(1, classes, 3);
  const PackedWeights packed(weights.view);
  const std::vector<int32_t> all(rows, 7), sparse = sparse_targets(rows, classes);
  for (const std::vector<int32_t>& targets : {all, sparse}) {
    Matrix dx_plain(x), dx_packed(x);
    const CrossEntropyGradients to_plain{.dx = dx_plain.view}, to_packed{.dx = dx_packed.view};
    CrossEntropy problem{
        .x = x.view, .weights = weights.view, .bias = vector_of(bias), .targets = targets};
    const double plain = cross_entropy(problem, &to_plain).loss;
    problem.weights = {};
    problem.packed = &packed;
    EXPECT_EQ(cross_entropy(problem, &to_packed).loss, plain);
    EXPECT_TRUE(dx_plain.same_bits(dx_packed));
  }
}

TEST_P(CrossEntropyOp, LargeLogitsDoNotOverflowAndTheFirstOfEqualOnesCounts) {
  const float x[] = {1, 1, 1}, weights[] = {1e4f, 3e38f, 3e38f};
  const int32_t targets[] = {1, 2, 0};
  const auto loss =
      cross_entropy({.x = {x, {3, 1}}, .weights = {weights, {3, 1}}, .targets = targets}, nullptr);
  EXPECT_NEAR(loss.loss, 3e38, 1e33);
  EXPECT_EQ(loss.correct, 1);
}

TEST(CrossEntropyErrors, BadTargetsAndShapesSayWhatWasExpected) {
  const Matrix x(2, 3, 1), weights(4, 3, 2), bias(1, 4, 3), wrong(3, 5, 4);
  const std::vector<int32_t> targets = {0, 3}, few = {0};
  CrossEntropy problem{.x = x.view, .weights = weights.view, .targets = targets};
  const auto expect = [](const char* start, const CrossEntropy& bad) {
    expect_error(start, [&] { cross_entropy(bad, nullptr); });
  };
  for (const int32_t bad : {-1, 4}) {
    const std::vector<int32_t> bad_targets = {0, bad};
    CrossEntropy with = problem;
    with.targets = bad_targets;
    expect("cross_entropy: there is no such class", with);
  }
  CrossEntropy with = problem;
  with.targets = few;
  expect("cross_entropy: the shape", with);
  with = problem;
  with.weights = wrong.view;
  expect("cross_entropy: the shape", with);
  with = problem;
  const PackedWeights packed(wrong.view);
  with.packed = &packed;
  expect("cross_entropy: the shape", with);
  with = problem;
  with.bias = vector_of(wrong);
  expect("cross_entropy: the shape", with);
  for (const float smoothing : {-0.1f, 1.1f, std::nanf("")}) {
    with = problem;
    with.label_smoothing = smoothing;
    expect("cross_entropy: the share", with);
  }
  const CrossEntropyGradients bad_dx{.dx = wrong.view}, bad_dw{.dweights = wrong.view};
  expect_error("cross_entropy: the shape", [&] { cross_entropy(problem, &bad_dx); });
  expect_error("cross_entropy: the shape", [&] { cross_entropy(problem, &bad_dw); });
}

/// Rows and classes around the cuts of the op; logits of several units, so that the largest is in
/// any part.
TEST_P(CrossEntropyOp, LossesOfRowsWithPackedWeights) {
  for (const auto& [rows, classes] : {std::pair{1, 1}, {3, 17}, {530, 40}, {5, 3071}, {7, 6150}}) {
    const int64_t C = 24;
    const Matrix x(rows, C, 1), weights(classes, C, 2), bias(1, classes, 3);
    const std::vector<int32_t> targets = [&] {
      std::vector<int32_t> all;
      for (int64_t t = 0; t < rows; ++t) all.push_back(static_cast<int32_t>(t * 997 % classes));
      return all;
    }();
    for (const bool biased : {false, true}) {
      const CrossEntropy problem{.x = x.view,
                                 .weights = weights.view,
                                 .bias = biased ? vector_of(bias) : View<float, 1>(),
                                 .targets = targets};
      std::vector<double> nll(rows);
      row_losses(problem.x, PackedWeights(problem.weights), problem.bias, targets, nll);
      for (int64_t t = 0; t < rows; ++t) {
        const std::vector<double> logits = logits_of(problem, t);
        double largest = 0;
        for (const double x : logits) largest = std::max(largest, std::abs(x));
        // Of logits, which are sums of C products, twice; of exp, which is good to 4 ulp, and its
        // sum.
        const double bound = (2 * (C + 2) * std::max(1., largest) + 8 + 32) * kUlp;
        EXPECT_NEAR(nll[t], log_sum(logits) - logits[targets[t]], bound) << rows << " " << classes;
      }
    }
  }
}

TEST_P(CrossEntropyOp, RowsDoNotChangeEachOthersLosses) {
  const Matrix x(70, 9, 1), weights(4000, 9, 2);
  const PackedWeights packed(weights.view);
  std::vector<int32_t> targets(70, 3333);
  std::vector<double> all(70), one(1);
  row_losses(x.view, packed, {}, targets, all);
  for (const int64_t t : {0, 13, 69}) {
    row_losses(x.view.rows(t, t + 1), packed, {}, std::span(targets).first(1), one);
    EXPECT_EQ(one[0], all[t]);
  }
  targets[5] = 4000;
  EXPECT_THROW(row_losses(x.view, packed, {}, targets, all), Error);
}

}  // namespace
}  // namespace headwise
