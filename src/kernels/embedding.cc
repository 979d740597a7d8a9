// Rows of a table: checks, rows or columns for threads, dispatch to the SIMD target.
#include "headwise/kernels/embedding.h"

#include "headwise/core/parallel.h"
#include "kernels/gemm_plan.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/embedding-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(embedding_rows);
HWY_EXPORT(embedding_backward_rows);

// A row of the table gets its gradients from one thread, in order: threads share columns.
constexpr int64_t kColumnsPerItem = 64;

void check_numbers(const char* op, std::span<const int32_t> rows, int64_t table_rows) {
  for (size_t t = 0; t < rows.size(); ++t) {
    if (rows[t] >= 0 && rows[t] < table_rows) continue;
    fail(op, "the table has no such row", fmt::format("rows[{}]", t), fmt::format("{}", rows[t]),
         fmt::format("0 to {}", table_rows - 1));
  }
}

}  // namespace

void embedding(View<const float, 2> table, std::span<const int32_t> rows, float scale, bool add,
               View<float, 2> out) {
  const auto count = static_cast<int64_t>(rows.size());
  check_rows("embedding", "table", table, table.shape());
  check_rows("embedding", "out", out, {count, table.extent(1)});
  check_numbers("embedding", rows, table.extent(0));
  if (out.empty()) return;
  parallel_panels(count, rows_per_item(table.extent(1)), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(embedding_rows)(table, &rows[begin], scale, add, out.rows(begin, end));
  });
}

void embedding_backward(View<const float, 2> dout, std::span<const int32_t> rows, float scale,
                        View<float, 2> dtable) {
  const auto count = static_cast<int64_t>(rows.size());
  check_rows("embedding_backward", "dtable", dtable, dtable.shape());
  check_rows("embedding_backward", "dout", dout, {count, dtable.extent(1)});
  check_numbers("embedding_backward", rows, dtable.extent(0));
  if (dout.empty()) return;
  parallel_panels(dout.extent(1), kColumnsPerItem, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(embedding_backward_rows)
    (block(dout, {0, count}, {begin, end}), rows.data(), scale,
     block(dtable, {0, dtable.extent(0)}, {begin, end}));
  });
}

}  // namespace headwise
#endif  // HWY_ONCE
