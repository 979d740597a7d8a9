// How a matrix product is cut into blocks: sizes that depend on shapes alone, never on threads.
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
// two panels of a tile, 16 KB each, or 24 KB with a rest, near L1. Sums are cut at multiples of the
// depth, whatever else is cut; a rest of at most half of it belongs to the part before, since to
// add it later would take longer than to read panels from L2.
inline constexpr int64_t kBlockRows = 192;
inline constexpr int64_t kBlockDepth = 256;
inline constexpr int64_t kDepthRest = kBlockDepth / 2;
inline constexpr int64_t kMostDepth = kBlockDepth + kDepthRest;
inline constexpr int64_t kStagedStride = kMostDepth + 16;  // no power of two: spreads over sets
inline constexpr int64_t kFewRows = 32;

struct Range {
  int64_t begin;
  int64_t end;
  constexpr int64_t size() const { return end - begin; }
};

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Part i of `count` parts of a range whose sizes differ by at most one, larger ones spread evenly:
/// threads take neighbours.
constexpr Range even_part(Range whole, int64_t i, int64_t count) {
  return {whole.begin + whole.size() * i / count, whole.begin + whole.size() * (i + 1) / count};
}
static_assert(even_part({0, 167}, 0, 16).size() == 10 && even_part({0, 167}, 15, 16).size() == 11);
static_assert(even_part({0, 167}, 7, 16).end == 83, "half of them for half of the threads");

/// What comes next of a range up to `end`: `size` of it, or all, if that leaves at most `rest`.
constexpr Range next_part(int64_t begin, int64_t end, int64_t size, int64_t rest) {
  return {begin, end - begin <= size + rest ? end : begin + size};
}

/// The part of a product's depth that begins here.
constexpr Range depth_part(int64_t begin, int64_t depth) {
  return next_part(begin, depth, kBlockDepth, kDepthRest);
}

/// Whether what is contiguous of a left operand is its columns, as in dyᵀ x.
inline bool contiguous_down(View<const float, 2> a) { return a.stride(0) == 1 && a.stride(1) != 1; }

/// What a thread computes of a product at once.
struct ProductBlock {
  Range rows, columns;
  Range next_rows;  // of the block it is likely to compute then; empty if these are the same
};

/// How the output of a product is cut: row_blocks times column_blocks, the columns in blocks of
/// `width`. Threads take neighbouring items, so they share what changes slowly: rows, or columns.
struct BlockCut {
  int64_t row_blocks, column_blocks, width;
  bool share_columns = false;

  int64_t items() const { return row_blocks * column_blocks; }
  int64_t row_of(int64_t item) const {
    return share_columns ? item % row_blocks : item / column_blocks;
  }
  int64_t column_of(int64_t item) const {
    return share_columns ? item / row_blocks : item % column_blocks;
  }
  Range rows_of(int64_t item, int64_t rows) const;
  ProductBlock block(int64_t item, int64_t rows, int64_t columns) const;
};

// Rows are cut at whole strips of tiles, whatever their height.
inline constexpr int64_t kRowUnit = 12;

/// A wide block uses a staged row often, a high one a panel; yet there are to be so many that
/// threads share them evenly. If all rows fit one block, every thread reads its own weights
/// instead; so it does where the right operand is the larger one of dyᵀ x.
constexpr BlockCut cut_into_blocks(int64_t rows, int64_t columns, bool left_down) {
  constexpr int64_t kUnit = 12 * kPanel;  // whole tiles, whatever their width
  constexpr int64_t kEnough = 16, kEven = 4;
  if (rows <= kBlockRows) {
    const int64_t width = rows <= kFewRows
                              ? kUnit / 3
                              : std::clamp(columns / kEnough / kUnit * kUnit, kUnit, 4 * kUnit);
    return {std::min<int64_t>(rows, 1), ceil_div(columns, width), width};
  }
  if (left_down && rows <= columns) {
    const int64_t width =
        std::clamp(columns / kEven / (kUnit / 3) * (kUnit / 3), 2 * kUnit / 3, 4 * kUnit);
    return {ceil_div(rows, kBlockRows), ceil_div(columns, width), width, true};
  }
  const int64_t column_blocks = std::max<int64_t>(1, ceil_div(columns, 4 * kUnit));
  const int64_t width = ceil_div(ceil_div(columns, column_blocks), kUnit / 3) * (kUnit / 3);
  const int64_t for_threads = std::min(kEnough / column_blocks, rows / (kBlockRows / 2));
  const int64_t row_blocks = std::max(ceil_div(rows, kBlockRows), for_threads);
  return {ceil_div(row_blocks, kEven) * kEven, columns == 0 ? 0 : column_blocks, width};
}

inline Range BlockCut::rows_of(int64_t item, int64_t rows) const {
  if (item >= items()) return {};
  const Range units = even_part({0, ceil_div(rows, kRowUnit)}, row_of(item), row_blocks);
  return {units.begin * kRowUnit, std::min(units.end * kRowUnit, rows)};
}

inline ProductBlock BlockCut::block(int64_t item, int64_t rows, int64_t columns) const {
  const int64_t begin = column_of(item) * width;
  const Range here = rows_of(item, rows), next = rows_of(item + 1, rows);
  return {.rows = here,
          .columns = {begin, std::min(begin + width, columns)},
          .next_rows = next.begin == here.begin ? Range{} : next};
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

/// What is read of the left operand after these columns of it. Few rows fit L1: nothing.
inline View<const float, 2> next_left(const Product& product, const ProductBlock& what,
                                      Range depth) {
  const bool deeper = depth.end < product.a.extent(1);
  const Range all = deeper ? what.rows : what.next_rows;
  return block(product.a, what.rows.size() <= kFewRows ? Range{} : all,
               depth_part(deeper ? depth.end : 0, product.a.extent(1)));
}

/// The same of a right operand that is read in place. Packed panels lie as they are read: nothing.
inline View<const float, 2> next_right(const Product& product, const ProductBlock& what,
                                       Range depth) {
  const Range next = depth_part(depth.end, product.a.extent(1));
  if (product.panel_step == kPanel || next.size() == 0) return {};
  const auto* const b = reinterpret_cast<const float*>(product.panels);
  return {b + next.begin * product.panel_step + what.columns.begin,
          {next.size(), what.columns.size()},
          {product.panel_step, 1}};
}

}  // namespace headwise
