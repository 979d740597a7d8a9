// Dropout against the draws it is defined by, on every SIMD target.
#include "headwise/kernels/dropout.h"

#include <cmath>
#include <vector>

#include "kernels/dropout_draws.h"
#include "kernels/op_testing.h"

namespace headwise {
namespace {

class DropoutOp : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, DropoutOp, testing::ValuesIn(simd_targets()), target_name);

/// The 16 bits drawn for (row, column).
uint32_t draw(const Dropout& dropout, int64_t row, int64_t column) {
  const int64_t index = column % kDrawChunk / kDrawLanes;
  const PhiloxBlock words = philox(draw_counter(dropout.stream, row, column), dropout.seed);
  return words[index / 2] >> (index % 2 * 16) & 0xffff;
}

TEST_P(DropoutOp, DropsWhatItsDrawsSay) {
  for (const auto& [rows, columns] :
       {std::pair{0, 5}, {3, 0}, {1, 1}, {5, 7}, {3, 128}, {40, 1001}}) {
    for (const float p : {0.0f, 0.1f, 0.5f, 0.99f}) {
      const Dropout setting{.p = p, .seed = 0x123456789abcdef0u, .stream = 0xfedcba9876543210u};
      const Matrix x(rows, columns, 1), residual(rows, columns, 2, 1);
      Matrix out(rows, columns, 3, 2), sum(rows, columns, 4, 5);
      dropout(x.view, setting, out.view);
      add_dropout(x.view, setting, residual.view, sum.view);
      const auto limit = std::lround(p * 65536);
      const auto factor = static_cast<float>(65536.0 / (65536.0 - static_cast<double>(limit)));
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < columns; ++c) {
          const float kept = draw(setting, r, c) < limit ? 0 : x.view(r, c) * factor;
          ASSERT_EQ(out.view(r, c), kept) << r << ' ' << c << ' ' << p;
          ASSERT_EQ(sum.view(r, c), residual.view(r, c) + kept) << r << ' ' << c << ' ' << p;
        }
      }
      EXPECT_TRUE(out.gaps_untouched());
      EXPECT_TRUE(sum.gaps_untouched());
    }
  }
}

std::vector<float> ones_dropped(const Dropout& setting, int64_t rows, int64_t columns) {
  std::vector<float> x(static_cast<size_t>(rows * columns), 1.0f);
  dropout({x.data(), {rows, columns}}, setting, {x.data(), {rows, columns}});
  return x;
}

TEST_P(DropoutOp, KeepsTheExpectationAndAsManyAsItSays) {
  const int64_t rows = 1000, columns = 300;
  const auto n = static_cast<double>(rows * columns);
  for (const float p : {0.001f, 0.1f, 0.5f, 0.9f}) {
    const auto x = ones_dropped({.p = p, .seed = 1}, rows, columns);
    double sum = 0, dropped = 0;
    for (const float v : x) {
      sum += v;
      dropped += v == 0 ? 1 : 0;
    }
    const double deviation = std::sqrt(p * (1 - p) / n);  // of the share that is dropped
    EXPECT_NEAR(dropped / n, p, 5 * deviation + 0x1p-17);
    EXPECT_NEAR(sum / n, 1, 5 * deviation / (1 - p));
  }
}

TEST_P(DropoutOp, DrawsOfNeighboursSeedsAndStreamsAreIndependent) {
  const int64_t rows = 512, columns = 512;
  const Dropout setting{.p = 0.5f, .seed = 7, .stream = 3};
  const auto x = ones_dropped(setting, rows, columns);
  const auto other_seed = ones_dropped({.p = 0.5f, .seed = 8, .stream = 3}, rows, columns);
  const auto other_stream = ones_dropped({.p = 0.5f, .seed = 7, .stream = 4}, rows, columns);
  // Values are 0 or 2 with mean 1: how often both agree, less how often not, over n pairs.
  const auto correlation = [&](const std::vector<float>& a, const std::vector<float>& b,
                               size_t lag) {
    double sum = 0;
    for (size_t i = 0; i + lag < a.size(); ++i) sum += (a[i] - 1) * (b[i + lag] - 1);
    return sum / static_cast<double>(a.size() - lag);
  };
  const double allowed = 5 / std::sqrt(static_cast<double>(rows * columns));
  for (const size_t lag : {1, 4, 8, 16, 32, 64, 128, 512}) {
    EXPECT_NEAR(correlation(x, x, lag), 0, allowed) << lag;
  }
  EXPECT_NEAR(correlation(x, other_seed, 0), 0, allowed);
  EXPECT_NEAR(correlation(x, other_stream, 0), 0, allowed);
}

TEST_P(DropoutOp, RowsOfAWholeAreDroppedAsInIt) {
  const Dropout setting{.p = 0.4f, .seed = 5, .stream = 6};
  std::vector<int64_t> rows;
  for (int64_t r = 1; r < 800; r += 2) rows.push_back(r);
  const Matrix whole(800, 300, 1);
  Matrix dropped(800, 300, 2), some(std::ssize(rows), 300, 3), expected(std::ssize(rows), 300, 4);
  dropout(whole.view, setting, dropped.view);
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(&whole.view(rows[i], 0), 300, &some.view(i, 0));
    std::copy_n(&dropped.view(rows[i], 0), 300, &expected.view(i, 0));
  }
  Dropout of_rows = setting;
  of_rows.rows = rows;
  dropout(some.view, of_rows, some.view);
  EXPECT_TRUE(some.same_bits(expected));
}

TEST_P(DropoutOp, MayOverwriteAndThreadsChangeNoBit) {
  const Dropout setting{.p = 0.3f, .seed = 5};
  const Matrix x(300, 500, 1), residual(300, 500, 2);
  set_threads(1);
  Matrix apart(300, 500, 3);
  add_dropout(x.view, setting, residual.view, apart.view);
  for (const int count : {2, 3, 7}) {
    set_threads(count);
    Matrix over_x(x), over_residual(residual);
    add_dropout(over_x.view, setting, residual.view, over_x.view);
    add_dropout(x.view, setting, over_residual.view, over_residual.view);
    EXPECT_TRUE(apart.same_bits(over_x)) << count;
    EXPECT_TRUE(apart.same_bits(over_residual)) << count;
  }
}

TEST_P(DropoutOp, SmallProbabilitiesRoundToTheNearestAndLargeOnesKeepSomething) {
  const auto none = ones_dropped({.p = 1e-6f}, 10, 1000);
  EXPECT_EQ(std::count(none.begin(), none.end(), 1.0f), 10000);
  for (const float v : ones_dropped({.p = 0.9999999f}, 10, 1000)) {
    EXPECT_TRUE(v == 0 || v == 65536) << v;
  }
}

TEST(DropoutErrors, BadProbabilitiesAndShapesSayWhatWasExpected) {
  const Matrix x(3, 4, 1), wrong(4, 3, 2);
  Matrix out(3, 4, 3);
  for (const float p : {-0.1f, 1.0f, std::nanf("")}) {
    expect_error("dropout: the probability", [&] { dropout(x.view, {.p = p}, out.view); });
  }
  expect_error("dropout: the shape", [&] { dropout(wrong.view, {.p = 0.1f}, out.view); });
  expect_error("dropout: the columns",
               [&] { dropout(transposed(wrong.view), {.p = 0.1f}, out.view); });
  const std::vector<int64_t> rows(2);
  expect_error("dropout: the shape", [&] { dropout(x.view, {.p = 0.1f, .rows = rows}, out.view); });
  expect_error("add_dropout: the shape",
               [&] { add_dropout(x.view, {.p = 0.1f}, wrong.view, out.view); });
}

}  // namespace
}  // namespace headwise
