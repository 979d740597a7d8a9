// How a matrix product is cut into blocks: sizes that depend on shapes alone, never on threads.
// Only what is fetched ahead depends on those, which changes no result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "headwise/core/view.h"
#include "headwise/kernels/gemm.h"

namespace headwise {

// The right operand is stored as panels of 16 columns, [N/16][K][16]: one order for all targets.
inline constexpr int kPanel = kPackedColumns;
inline constexpr int kMaxTilePanels = 4;

// A block is what one thread computes at once: its rows of the left operand stay in L2, the one or
// two panels of a tile, 16 KB each, in L1. Sums are cut at multiples of the depth, whatever else is
// cut.
inline constexpr int64_t kBlockRows = 192;
inline constexpr int64_t kBlockDepth = 256;
inline constexpr int64_t kStagedStride =
    kBlockDepth + 16;  // no power of two: spreads over cache sets
inline constexpr int64_t kFewRows = 32;

struct Range {
  int64_t begin;
  int64_t end;
  constexpr int64_t size() const { return end - begin; }
};

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Part i of `count` parts of a range whose sizes differ by at most one, larger ones first.
constexpr Range even_part(Range whole, int64_t i, int64_t count) {
  const int64_t size = whole.size() / count;
  const int64_t larger = whole.size() % count;
  const int64_t begin = whole.begin + i * size + std::min(i, larger);
  return {begin, begin + size + (i < larger ? 1 : 0)};
}

/// How the output of a product is cut: row_blocks times column_blocks, the columns in blocks of
/// `width`.
struct BlockCut {
  int64_t row_blocks, column_blocks, width;
};

// Rows are cut at whole strips of tiles, whatever their height.
inline constexpr int64_t kRowUnit = 12;

/// A wide block uses a staged row often, a high one a panel; yet there are to be so many that
/// threads share them evenly. If all rows fit one block, every thread reads its own weights
/// instead.
constexpr BlockCut cut_into_blocks(int64_t rows, int64_t columns) {
  constexpr int64_t kUnit = 12 * kPanel;  // whole tiles, whatever their width
  constexpr int64_t kEnough = 16, kEven = 4;
  if (rows <= kBlockRows) {
    const int64_t width = rows <= kFewRows
                              ? kUnit / 3
                              : std::clamp(columns / kEnough / kUnit * kUnit, kUnit, 4 * kUnit);
    return {std::min<int64_t>(rows, 1), ceil_div(columns, width), width};
  }
  const int64_t column_blocks = std::max<int64_t>(1, ceil_div(columns, 4 * kUnit));
  const int64_t width = ceil_div(ceil_div(columns, column_blocks), kUnit / 3) * (kUnit / 3);
  const int64_t for_threads = std::min(kEnough / column_blocks, rows / (kBlockRows / 2));
  const int64_t row_blocks = std::max(ceil_div(rows, kBlockRows), for_threads);
  return {ceil_div(row_blocks, kEven) * kEven, columns == 0 ? 0 : column_blocks, width};
}

/// Block i of `count` of a product's rows.
constexpr Range block_of_rows(int64_t rows, int64_t i, int64_t count) {
  const Range units = even_part({0, ceil_div(rows, kRowUnit)}, i, count);
  return {units.begin * kRowUnit, std::min(units.end * kRowUnit, rows)};
}

/// Whether a product takes one thread longer than about 20 µs; starting threads takes a few.
/// Reading a weight from memory takes as long as multiplying 8 rows with it.
constexpr bool worth_threads(int64_t rows, int64_t columns, int64_t depth) {
  return static_cast<double>(std::max<int64_t>(rows, 8)) * static_cast<double>(columns) *
             static_cast<double>(depth) >
         1e6;
}

/// A part of a matrix; of one that is not there, such as no residual, a part that is not there.
template <class T>
View<T, 2> block(View<T, 2> matrix, Range rows, Range columns) {
  if (matrix.data() == nullptr) return {};
  return {matrix.data() + rows.begin * matrix.stride(0) + columns.begin * matrix.stride(1),
          {rows.size(), columns.size()},
          matrix.strides()};
}

/// out[M, N] (+)= a[M, K] · panels, with the epilogue if this is the last part of K.
struct Product {
  View<const float, 2> a;
  const std::byte* panels;  // of `type`
  WeightType type;
  ptrdiff_t panel_stride;  // from panel to panel, in elements
  ptrdiff_t panel_step;    // from row to row of a panel
  View<float, 2> out;
  Epilogue epilogue;
  bool add;  // to what `out` holds
  bool last;
};

/// What a thread computes of a product at once.
struct ProductBlock {
  Range rows, columns;
  Range next_rows;  // of the block it is likely to compute then; empty if these are the same

  /// What is read of the left operand after these columns of it. Few rows fit L1: nothing.
  View<const float, 2> next_left(const Product& product, Range depth) const {
    const bool deeper = depth.end < product.a.extent(1);
    const int64_t begin = deeper ? depth.end : 0;
    const Range read = rows.size() <= kFewRows ? Range{} : deeper ? rows : next_rows;
    return block(product.a, read, {begin, std::min(begin + kBlockDepth, product.a.extent(1))});
  }

  /// The same of a right operand that is read in place. Packed panels lie as they are read:
  /// nothing.
  View<const float, 2> next_right(const Product& product, Range depth) const {
    const int64_t left = product.a.extent(1) - depth.end;
    if (product.panel_step == kPanel || left == 0) return {};
    const auto* const b = reinterpret_cast<const float*>(product.panels);
    return {b + depth.end * product.panel_step + columns.begin,
            {std::min(kBlockDepth, left), columns.size()},
            {product.panel_step, 1}};
  }
};

}  // namespace headwise
