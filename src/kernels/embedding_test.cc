// Rows of tables and their gradients against the definition, on every SIMD target.
#include "headwise/kernels/embedding.h"

#include <cmath>
#include <vector>

#include "kernels/op_testing.h"

namespace headwise {
namespace {

class Embedding : public OnEveryTarget {};
INSTANTIATE_TEST_SUITE_P(Targets, Embedding, testing::ValuesIn(simd_targets()), target_name);

std::vector<int32_t> some_rows(int64_t count, int64_t limit) {
  std::vector<int32_t> rows;
  for (int64_t t = 0; t < count; ++t) rows.push_back(static_cast<int32_t>(t * t * 7 % limit));
  return rows;
}

TEST_P(Embedding, LooksUpRows) {
  for (const auto& [count, width] : {std::pair{0, 5}, {3, 0}, {1, 1}, {9, 7}, {300, 130}}) {
    const Matrix table(11, width, 1), before(count, width, 2, 1);
    const auto rows = some_rows(count, 11);
    Matrix out(before), sum(before);
    embedding(table.view, rows, 2, false, out.view);
    embedding(table.view, rows, 2, true, sum.view);
    for (int64_t t = 0; t < count; ++t) {
      for (int64_t c = 0; c < width; ++c) {
        ASSERT_EQ(out.view(t, c), 2 * table.view(rows[t], c));
        ASSERT_EQ(sum.view(t, c), before.view(t, c) + 2 * table.view(rows[t], c));
      }
    }
    EXPECT_TRUE(out.gaps_untouched());
    EXPECT_TRUE(sum.gaps_untouched());
  }
}

TEST_P(Embedding, GradientsOfARowAreAddedInOrder) {
  for (const auto& [count, width] : {std::pair{0, 5}, {3, 0}, {1, 1}, {9, 7}, {300, 130}}) {
    const Matrix dout(count, width, 1), before(11, width, 2, 1);
    const auto rows = some_rows(count, 11);
    for (const int threads : {1, 2, 3, 7}) {
      set_threads(threads);
      Matrix dtable(before), expected(before);
      embedding_backward(dout.view, rows, 0.5f, dtable.view);
      for (int64_t t = 0; t < count; ++t) {
        for (int64_t c = 0; c < width; ++c) expected.view(rows[t], c) += 0.5f * dout.view(t, c);
      }
      EXPECT_TRUE(dtable.same_bits(expected)) << threads;  // halves are exact
    }
  }
}

TEST(EmbeddingErrors, BadRowsAndShapesSayWhatWasExpected) {
  const Matrix table(4, 3, 1);
  Matrix out(2, 3, 2), unchanged(out);
  for (const int32_t bad : {-1, 4}) {
    const std::vector<int32_t> rows = {0, bad};
    expect_error("embedding: the table", [&] { embedding(table.view, rows, 1, false, out.view); });
    expect_error("embedding_backward: the table",
                 [&] { embedding_backward(table.view.rows(0, 2), rows, 1, out.view); });
  }
  EXPECT_TRUE(out.same_bits(unchanged));
  const std::vector<int32_t> rows = {0, 1};
  expect_error("embedding: the shape", [&] { embedding(table.view, rows, 1, false, table.view); });
  expect_error("embedding_backward: the shape",
               [&] { embedding_backward(table.view, rows, 1, out.view); });
}

}  // namespace
}  // namespace headwise
