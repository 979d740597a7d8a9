// Matrix products: checks, the cut into blocks for threads, dispatch to the SIMD target.
#include "headwise/kernels/gemm.h"

#include <fmt/format.h>

#include "headwise/core/error.h"
#include "headwise/core/parallel.h"
#include "headwise/core/shape.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/gemm-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(pack_panel);
HWY_EXPORT(multiply_block);
HWY_EXPORT(sum_columns);

// The part of a right operand that gemm packs at a time: small enough to stay in L3.
constexpr int64_t kScratchDepth = 2 * kBlockDepth;
constexpr int64_t kScratchPanels = 192;
constexpr int64_t kSumColumns = 64;

[[noreturn]] void fail(const char* op, const char* what, const char* where, std::string got,
                       std::string expected, const char* hint = "") {
  throw Error({.what = fmt::format("{}: {}", op, what),
               .where = where,
               .got = std::move(got),
               .expected = std::move(expected),
               .hint = hint});
}

template <size_t R>
void check_shape(const char* op, const char* where, const std::array<int64_t, R>& got,
                 const std::array<int64_t, R>& expected) {
  if (got != expected) {
    fail(op, "the shape does not fit", where, to_string(got), to_string(expected));
  }
}

template <class T, int R>
void check_contiguous_columns(const char* op, const char* where, View<T, R> view) {
  if (view.extent(R - 1) > 1 && view.stride(R - 1) != 1) {
    fail(op, "the columns are not contiguous", where,
         fmt::format("a stride of {}", view.stride(R - 1)), "a stride of 1");
  }
}

void check_output(const char* op, int64_t rows, int64_t columns, View<float, 2> out,
                  const Epilogue& epilogue) {
  check_shape(op, "out", out.shape(), {rows, columns});
  check_contiguous_columns(op, "out", out);
  if (epilogue.bias.data() != nullptr) {
    check_shape(op, "bias", epilogue.bias.shape(), {columns});
    check_contiguous_columns(op, "bias", epilogue.bias);
  }
  if (epilogue.residual.data() != nullptr) {
    check_shape(op, "residual", epilogue.residual.shape(), {rows, columns});
    check_contiguous_columns(op, "residual", epilogue.residual);
    if (epilogue.residual.data() == out.data() && !out.empty()) {
      fail(op, "the residual is the output itself", "residual", "the same memory", "other memory",
           "to add into the output, set accumulate");
    }
  }
}

void pack(View<const float, 2> b, float* panels) {
  parallel_for(ceil_div(b.extent(1), kPanel), [&](int64_t panel) {
    HWY_DYNAMIC_DISPATCH(pack_panel)(b, panel, panels + panel * b.extent(0) * kPanel);
  });
}

void multiply(const Product& product) {
  const Range rows{0, product.out.extent(0)};
  const Range panels{0, ceil_div(product.out.extent(1), kPanel)};
  const int64_t block_panels = rows.size() <= kFewRows ? kBlockPanelsFewRows : kBlockPanels;
  const int64_t row_blocks = ceil_div(rows.size(), kBlockRows);
  const int64_t column_blocks = ceil_div(panels.size(), block_panels);
  parallel_for(row_blocks * column_blocks, [&](int64_t block) {
    const int64_t first = block % column_blocks * block_panels;
    HWY_DYNAMIC_DISPATCH(multiply_block)
    (product, even_part(rows, block / column_blocks, row_blocks),
     {first, std::min(first + block_panels, panels.end)});
  });
}

View<const float, 2> sub(View<const float, 2> view, Range rows, Range columns) {
  return {view.data() + rows.begin * view.stride(0) + columns.begin * view.stride(1),
          {rows.size(), columns.size()},
          view.strides()};
}

}  // namespace

PackedWeights::PackedWeights(View<const float, 2> weights)
    : outputs_(weights.extent(0)),
      inputs_(weights.extent(1)),
      panels_(checked_mul(checked_mul(ceil_div(outputs_, kPanel), kPanel), inputs_)) {
  pack(transposed(weights), panels_.data());
}

void linear(View<const float, 2> x, const PackedWeights& weights, View<float, 2> out,
            const Epilogue& epilogue) {
  check_shape("linear", "x", x.shape(), {x.extent(0), weights.inputs()});
  check_output("linear", x.extent(0), weights.outputs(), out, epilogue);
  multiply({.a = x,
            .panels = weights.panels(),
            .panel_stride = weights.inputs() * kPanel,
            .out = out,
            .epilogue = epilogue,
            .add = epilogue.accumulate,
            .last = true});
}

void gemm(View<const float, 2> a, View<const float, 2> b, View<float, 2> c,
          const Epilogue& epilogue) {
  const int64_t depth_all = a.extent(1);
  check_shape("gemm", "b", b.shape(), {depth_all, b.extent(1)});
  check_output("gemm", a.extent(0), b.extent(1), c, epilogue);
  const int64_t most_panels = std::min(kScratchPanels, ceil_div(b.extent(1), kPanel));
  const Buffer scratch(most_panels * kPanel * std::min(kScratchDepth, depth_all));
  for (int64_t n = 0; n < b.extent(1); n += kScratchPanels * kPanel) {
    const Range columns{n, std::min(n + kScratchPanels * kPanel, b.extent(1))};
    for (int64_t k = 0; k == 0 || k < depth_all; k += kScratchDepth) {
      const Range depth{k, std::min(k + kScratchDepth, depth_all)};
      pack(sub(b, depth, columns), scratch.data());
      Epilogue part = epilogue;
      if (part.bias.data() != nullptr) part.bias = part.bias.rows(columns.begin, columns.end);
      if (part.residual.data() != nullptr) {
        part.residual = sub(part.residual, {0, a.extent(0)}, columns);
      }
      multiply({.a = sub(a, {0, a.extent(0)}, depth),
                .panels = scratch.data(),
                .panel_stride = depth.size() * kPanel,
                .out = {c.data() + n, {c.extent(0), columns.size()}, c.strides()},
                .epilogue = part,
                .add = epilogue.accumulate || k > 0,
                .last = depth.end == depth_all});
    }
  }
}

void sum_rows(View<const float, 2> x, View<float, 1> sums) {
  check_shape("sum_rows", "sums", sums.shape(), {x.extent(1)});
  check_contiguous_columns("sum_rows", "x", x);
  check_contiguous_columns("sum_rows", "sums", sums);
  parallel_panels(x.extent(1), kSumColumns, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sum_columns)
    (sub(x, {0, x.extent(0)}, {begin, end}), sums.data() + begin);
  });
}

}  // namespace headwise
#endif  // HWY_ONCE
