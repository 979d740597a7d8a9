// Copies of matrices into the order that products read, and prefetching them ahead. Compiled once
// per SIMD target.
#if defined(HEADWISE_KERNELS_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_GEMM_PACK_INL_H_
#undef HEADWISE_KERNELS_GEMM_PACK_INL_H_
#else
#define HEADWISE_KERNELS_GEMM_PACK_INL_H_
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/gemm_plan.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What a copy reads soon: whole lines of `count` elements.
template <class T>
HWY_INLINE void prefetch_elements(const T* from, int64_t count) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < count; i += kLine) __builtin_prefetch(from + i);
}

template <class T>
HWY_INLINE void transpose_4x4(const T* from, ptrdiff_t from_stride, T* to, ptrdiff_t to_stride) {
  const hn::FixedTag<T, 4> d;
  const auto r0 = hn::LoadU(d, from);
  const auto r1 = hn::LoadU(d, from + from_stride);
  const auto r2 = hn::LoadU(d, from + 2 * from_stride);
  const auto r3 = hn::LoadU(d, from + 3 * from_stride);
  const auto lower01 = hn::InterleaveLower(d, r0, r1);
  const auto lower23 = hn::InterleaveLower(d, r2, r3);
  const auto upper01 = hn::InterleaveUpper(d, r0, r1);
  const auto upper23 = hn::InterleaveUpper(d, r2, r3);
  hn::StoreU(hn::ConcatLowerLower(d, lower23, lower01), d, to);
  hn::StoreU(hn::ConcatUpperUpper(d, lower23, lower01), d, to + to_stride);
  hn::StoreU(hn::ConcatLowerLower(d, upper23, upper01), d, to + 2 * to_stride);
  hn::StoreU(hn::ConcatUpperUpper(d, upper23, upper01), d, to + 3 * to_stride);
}

/// to[R, C] = from[R, C] for multiples of 4 and rows of `from` that are contiguous down a column.
/// Goes along those: columns often lie a power of two apart, which caches hold few of.
template <class T>
void transpose_fours(View<const T, 2> from, View<T, 2> to) {
  constexpr int64_t kAhead = 8;
  const auto [rows, columns] = from.shape();
  for (int64_t c = 0; c < columns; c += 4) {
    for (int64_t ahead = c + kAhead; ahead < std::min(c + kAhead + 4, columns); ++ahead) {
      prefetch_elements(&from(0, ahead), rows);
    }
    for (int64_t r = 0; r < rows; r += 4) {
      transpose_4x4(&from(r, c), from.stride(1), &to(r, c), to.stride(0));
    }
  }
}

/// to[R, C] = from[R, C], fast when either stride of `from` is 1.
template <class T>
void copy_elements(View<const T, 2> from, View<T, 2> to) {
  const auto [rows, columns] = from.shape();
  if (rows == 0 || columns == 0) return;
  if (from.stride(1) == 1) {
    constexpr int64_t kAhead = 2;
    for (int64_t r = 0; r < rows; ++r) {
      if (r + kAhead < rows) prefetch_elements(&from(r + kAhead, 0), columns);
      std::copy_n(&from(r, 0), columns, &to(r, 0));
    }
    return;
  }
  const bool by_fours = from.stride(0) == 1;
  const Range whole_rows{0, by_fours ? rows / 4 * 4 : 0};
  const Range whole_columns{0, by_fours ? columns / 4 * 4 : 0};
  transpose_fours(block(from, whole_rows, whole_columns), block(to, whole_rows, whole_columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows.end ? whole_columns.end : 0; c < columns; ++c) {
      to(r, c) = from(r, c);
    }
  }
}

/// Columns [kPanel * panel, …) of b[K, N] as K rows of kPanel elements, zeros beyond N.
template <class T>
void pack_panel(View<const T, 2> b, int64_t panel, T* to) {
  const int64_t begin = panel * kPanel;
  const int64_t columns = std::min<int64_t>(kPanel, b.extent(1) - begin);
  if (columns < kPanel) std::fill_n(to, b.extent(0) * kPanel, T{0});
  copy_elements(block(b, {0, b.extent(0)}, {begin, begin + columns}),
                View<T, 2>(to, {b.extent(0), columns}, {kPanel, 1}));
}

/// The same for several panels, read along the rows that they share.
template <class T>
void pack_panels(View<const T, 2> b, Range panels, T* to) {
  constexpr int64_t kAhead = 4;
  const int64_t depth = b.extent(0), size = depth * kPanel;
  const int64_t whole = b.stride(1) == 1 ? std::min(panels.end, b.extent(1) / kPanel) : 0;
  const int64_t count = std::max<int64_t>(0, whole - panels.begin);
  for (int64_t k = 0; k < depth && count > 0; ++k) {
    const T* const from = &b(k, panels.begin * kPanel);
    if (k + kAhead < depth) prefetch_elements(from + kAhead * b.stride(0), count * kPanel);
    for (int64_t p = 0; p < count; ++p) {  // of a fixed size: no call
      std::memcpy(to + p * size + k * kPanel, from + p * kPanel, kPanel * sizeof(T));
    }
  }
  for (int64_t p = count; p < panels.size(); ++p) {
    pack_panel(b, panels.begin + p, to + p * size);
  }
}

/// Panels `from` of weights [N, K], [N/16][K][16], as panels of a right operand [N, K]: rows
/// `depth` of N and columns `columns` of K, both from a multiple of kPanel on. Reads the panels
/// along K.
template <class T>
void transpose_panels(const T* from, int64_t K, Range depth, Range columns, T* to) {
  for (int64_t n = depth.begin; n < depth.end; n += kPanel) {
    const int64_t rows = std::min<int64_t>(kPanel, depth.end - n);
    for (int64_t k = columns.begin; k < columns.end; k += kPanel) {
      const int64_t count = std::min<int64_t>(kPanel, columns.end - k);
      T* const part = to + (k - columns.begin) * depth.size() + (n - depth.begin) * kPanel;
      if (count < kPanel) std::fill_n(part, rows * kPanel, T{0});
      copy_elements(View<const T, 2>(from + n * K + k * kPanel, {rows, count}, {1, kPanel}),
                    View<T, 2>(part, {rows, count}, {kPanel, 1}));
    }
  }
}

/// Brings a matrix into L2, a part with every step, while something else is computed.
class Prefetcher {
 public:
  Prefetcher(View<const float, 2> matrix, int64_t steps) {
    const View<const float, 2> rows = contiguous_down(matrix) ? transposed(matrix) : matrix;
    data_ = rows.data();
    stride_ = rows.stride(0);
    row_lines_ = ceil_div(rows.extent(1), kLine);
    left_ = rows.stride(1) == 1 ? rows.extent(0) * row_lines_ : 0;
    at_once_ = ceil_div(left_, steps);
  }

  HWY_INLINE void step() {
    const int64_t count = std::min(at_once_, left_);
    for (int64_t i = 0; i < count; ++i) {
      __builtin_prefetch(data_ + line_ * kLine, 0, 2);
      if (++line_ < row_lines_) continue;
      line_ = 0;
      data_ += stride_;
    }
    left_ -= count;
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(float);
  const float* data_;
  ptrdiff_t stride_;
  int64_t row_lines_, left_, at_once_;
  int64_t line_ = 0;  // of this row
};

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
