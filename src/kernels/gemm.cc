// Matrix products: checks, the cut into blocks for threads, dispatch to the SIMD target.
#include "headwise/kernels/gemm.h"

#include <type_traits>

#include "core/scratch.h"
#include "headwise/core/parallel.h"
#include "headwise/core/shape.h"
#include "kernels/op_checks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "kernels/gemm-inl.h"

#if HWY_ONCE
namespace headwise {
namespace {

HWY_EXPORT(pack_panels_float);
HWY_EXPORT(pack_panels_half);
HWY_EXPORT(transpose_panels_float);
HWY_EXPORT(transpose_panels_half);
HWY_EXPORT(multiply_block);
HWY_EXPORT(end_swapped);
HWY_EXPORT(sum_columns);

// How many numbers of its right operand a product packs at a time, so that they stay in L3: about
// so many, at most this wide, and more of them where that is less than this deep.
constexpr int64_t kScratchSize = int64_t{1} << 19;
constexpr int64_t kScratchWidth = 3072;
constexpr int64_t kScratchDepth = 2 * kBlockDepth;
constexpr int64_t kSumColumns = 64;
constexpr int64_t kSwappedRows = 64;

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

// Panels that a thread packs at once: they share the lines of memory that are read.
constexpr int64_t kTogether = 4;

template <class T>
void pack(View<const T, 2> b, T* panels) {
  parallel_panels(ceil_div(b.extent(1), kPanel), kTogether, [&](int64_t begin, int64_t end) {
    T* const to = panels + begin * b.extent(0) * kPanel;
    if constexpr (std::is_same_v<T, float>) {
      HWY_DYNAMIC_DISPATCH(pack_panels_float)(b, {begin, end}, to);
    } else {
      HWY_DYNAMIC_DISPATCH(pack_panels_half)(b, {begin, end}, to);
    }
  });
}

/// Packs a part of the weights [N, K] as a right operand: rows `depth` of N and columns `columns`
/// of K, both from a multiple of kPanel on.
template <class T>
void repack_transposed(const PackedWeights& weights, Range depth, Range columns, T* panels) {
  const auto* const from = reinterpret_cast<const T*>(weights.panels());
  parallel_panels(ceil_div(columns.size(), kPanel), kTogether, [&](int64_t begin, int64_t end) {
    const Range some{columns.begin + begin * kPanel,
                     std::min(columns.begin + end * kPanel, columns.end)};
    T* const to = panels + begin * depth.size() * kPanel;
    if constexpr (std::is_same_v<T, float>) {
      HWY_DYNAMIC_DISPATCH(transpose_panels_float)(from, weights.inputs(), depth, some, to);
    } else {
      HWY_DYNAMIC_DISPATCH(transpose_panels_half)(from, weights.inputs(), depth, some, to);
    }
  });
}

/// Bytes of the panels for weights [N, K].
template <class T>
int64_t panel_bytes(View<const T, 2> weights) {
  const int64_t row = checked_mul(ceil_div(weights.extent(0), kPanel), kPanel * sizeof(T));
  return checked_mul(row, weights.extent(1));
}

void multiply(const Product& product) {
  const auto [rows, columns] = product.out.shape();
  const BlockCut cut = cut_into_blocks(rows, columns, contiguous_down(product.a));
  const auto multiply_item = [&, rows = rows, columns = columns](int64_t item) {
    HWY_DYNAMIC_DISPATCH(multiply_block)(product, cut.block(item, rows, columns));
  };
  if (worth_threads(rows, columns, product.a.extent(1))) {
    parallel_for(cut.items(), multiply_item);
  } else {
    for (int64_t item = 0; item < cut.items(); ++item) multiply_item(item);
  }
}

/// What is left of an epilogue for some columns of the output.
Epilogue columns_of(const Epilogue& whole, int64_t rows, Range columns) {
  Epilogue part = whole;
  if (part.bias.data() != nullptr) part.bias = part.bias.rows(columns.begin, columns.end);
  part.residual = block(part.residual, {0, rows}, columns);
  return part;
}

/// Calls work(part) for parts of `size`, the last of at most `rest` more; once, with an empty part,
/// for nothing.
template <class Work>
void for_parts(int64_t whole, int64_t size, int64_t rest, const Work& work) {
  Range part{};
  do {
    part = next_part(part.end, whole, size, rest);
    work(part);
  } while (part.end < whole);
}

/// c = a · b, then the epilogue. Calls pack_part(depth, columns, panels) for parts of b, whose
/// numbers are of `type`.
template <class T, class PackPart>
void multiply_parts(View<const float, 2> a, WeightType type, View<float, 2> c,
                    const Epilogue& epilogue, const PackPart& pack_part) {
  const auto [m, n] = c.shape();
  const int64_t k = a.extent(1);
  const int64_t width_most = ceil_div(std::min(kScratchWidth, n), kPanel) * kPanel;
  const int64_t depth_most = std::max(
      kScratchDepth, kScratchSize / std::max<int64_t>(width_most, 1) / kBlockDepth * kBlockDepth);
  Scratch scratch;
  T* const panels = scratch.take<T>(width_most * std::min(depth_most + kDepthRest, k));
  for_parts(n, kScratchWidth, 0, [&, m = m](Range columns) {
    for_parts(k, depth_most, kDepthRest, [&](Range depth) {
      pack_part(depth, columns, panels);
      multiply({.a = block(a, {0, m}, depth),
                .panels = reinterpret_cast<const std::byte*>(panels),
                .type = type,
                .panel_stride = depth.size() * kPanel,
                .panel_step = kPanel,
                .out = block(c, {0, m}, columns),
                .epilogue = columns_of(epilogue, m, columns),
                .add = epilogue.accumulate || depth.begin > 0,
                .last = depth.end == k});
    });
  });
}

/// c = a · b with its epilogue as (bᵀ · aᵀ)ᵀ, for few rows of a: instead of b, which is to have
/// contiguous columns, only these are packed.
void multiply_swapped(View<const float, 2> a, View<const float, 2> b, View<float, 2> c,
                      const Epilogue& epilogue) {
  const auto [m, n] = c.shape();
  const int64_t k = a.extent(1), width = ceil_div(m, kPanel) * kPanel;
  Scratch scratch;
  float* const panels = scratch.take<float>(width * k);
  const View<float, 2> sums(scratch.take<float>(n * width), {n, width});
  pack(transposed(a), panels);
  multiply({.a = transposed(b),
            .panels = reinterpret_cast<const std::byte*>(panels),
            .type = WeightType::float32,
            .panel_stride = k * kPanel,
            .panel_step = kPanel,
            .out = sums,
            .last = true});
  parallel_panels(n, kSumColumns, [&, m = m](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(end_swapped)
    (block(transposed<const float>(sums), {0, m}, {begin, end}), block(c, {0, m}, {begin, end}),
     columns_of(epilogue, m, {begin, end}));
  });
}

}  // namespace

PackedWeights::PackedWeights(View<const float, 2> weights)
    : outputs_(weights.extent(0)), inputs_(weights.extent(1)), panels_(panel_bytes(weights)) {
  pack(transposed(weights), reinterpret_cast<float*>(panels_.data()));
}

PackedWeights::PackedWeights(View<const uint16_t, 2> weights, WeightType type)
    : outputs_(weights.extent(0)),
      inputs_(weights.extent(1)),
      type_(type),
      panels_(panel_bytes(weights)) {
  if (type == WeightType::float32) {
    fail("PackedWeights", "numbers of 16 bits cannot be float32", "type", "float32",
         "float16 or bfloat16");
  }
  pack(transposed(weights), reinterpret_cast<uint16_t*>(panels_.data()));
}

void linear(View<const float, 2> x, const PackedWeights& weights, View<float, 2> out,
            const Epilogue& epilogue) {
  check_shape("linear", "x", x.shape(), {x.extent(0), weights.inputs()});
  check_contiguous_columns("linear", "x", x);
  check_output("linear", x.extent(0), weights.outputs(), out, epilogue);
  linear_columns(x, weights, 0, out, epilogue);
}

void linear_columns(View<const float, 2> x, const PackedWeights& weights, int64_t begin,
                    View<float, 2> out, const Epilogue& epilogue) {
  const char* const op = "linear_columns";
  check_shape(op, "x", x.shape(), {x.extent(0), weights.inputs()});
  check_contiguous_columns(op, "x", x);
  check_output(op, x.extent(0), out.extent(1), out, epilogue);
  if (begin < 0 || begin % kPanel != 0 || begin > weights.outputs() - out.extent(1)) {
    fail(op, "these outputs cannot be had alone", "begin",
         fmt::format("{} to {}", begin, begin + out.extent(1)),
         fmt::format("from a multiple of {} to at most {}", kPanel, weights.outputs()));
  }
  const int64_t bytes = weights.type() == WeightType::float32 ? 4 : 2;
  multiply({.a = x,
            .panels = weights.panels() + begin * weights.inputs() * bytes,
            .type = weights.type(),
            .panel_stride = weights.inputs() * kPanel,
            .panel_step = kPanel,
            .out = out,
            .epilogue = epilogue,
            .add = epilogue.accumulate,
            .last = true});
}

void linear_backward(View<const float, 2> dy, const PackedWeights& weights, View<float, 2> dx,
                     bool accumulate) {
  const char* const op = "linear_backward";
  check_shape(op, "dy", dy.shape(), {dy.extent(0), weights.outputs()});
  check_contiguous_columns(op, "dy", dy);
  const Epilogue epilogue{.accumulate = accumulate};
  check_output(op, dy.extent(0), weights.inputs(), dx, epilogue);
  const auto multiply_as = [&]<class T>(T) {
    multiply_parts<T>(dy, weights.type(), dx, epilogue, [&](Range depth, Range columns, T* panels) {
      repack_transposed(weights, depth, columns, panels);
    });
  };
  weights.type() == WeightType::float32 ? multiply_as(float{}) : multiply_as(uint16_t{});
}

void gemm(View<const float, 2> a, View<const float, 2> b, View<float, 2> c,
          const Epilogue& epilogue) {
  const auto [m, n] = c.shape();
  const int64_t k = a.extent(1);
  check_shape("gemm", "b", b.shape(), {k, b.extent(1)});
  check_output("gemm", a.extent(0), b.extent(1), c, epilogue);
  // To pack what is multiplied with few rows would take longer than to multiply.
  if (m <= kSwappedRows && b.stride(0) == 1 && !epilogue.accumulate) {
    return multiply_swapped(a, b, c, epilogue);
  }
  if (m <= kBlockRows && b.stride(1) == 1 && n % kPanel == 0 && k > 0) {
    return multiply({.a = a,
                     .panels = reinterpret_cast<const std::byte*>(b.data()),
                     .type = WeightType::float32,
                     .panel_stride = kPanel,
                     .panel_step = b.stride(0),
                     .out = c,
                     .epilogue = epilogue,
                     .add = epilogue.accumulate,
                     .last = true});
  }
  multiply_parts<float>(
      a, WeightType::float32, c, epilogue,
      [&](Range depth, Range columns, float* panels) { pack(block(b, depth, columns), panels); });
}

void sum_rows(View<const float, 2> x, View<float, 1> sums) {
  check_shape("sum_rows", "sums", sums.shape(), {x.extent(1)});
  check_contiguous_columns("sum_rows", "x", x);
  check_contiguous_columns("sum_rows", "sums", sums);
  parallel_panels(x.extent(1), kSumColumns, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(sum_columns)
    (block(x, {0, x.extent(0)}, {begin, end}), sums.data() + begin);
  });
}

}  // namespace headwise
#endif  // HWY_ONCE
