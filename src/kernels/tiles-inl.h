// Products of small matrices held in registers, and the packing of their operands. Included once
// per SIMD target.
#if defined(HEADWISE_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_TILES_INL_H_
#undef HEADWISE_TILES_INL_H_
#else
#define HEADWISE_TILES_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/scratch.h"
#include "kernels/lambda.h"

HWY_BEFORE_NAMESPACE();
namespace headwise {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if defined(__clang__)
#define HEADWISE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define HEADWISE_UNROLL _Pragma("GCC unroll 16")
#endif

using F32 = hn::ScalableTag<float>;
using Vec = hn::Vec<F32>;
constexpr int64_t kLanes = HWY_LANES(float);

/// A tile is kTileRows x kPanel: two vectors a row, as many rows as leave registers for the
/// operands.
constexpr int64_t kPanel = 2 * kLanes;
constexpr int kTileRows = HWY_TARGET <= HWY_AVX3 ? 12 : 6;

constexpr int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

/// Rows of the next tile when `left` are left: whole tiles, and a rest of two even ones rather than
/// one small one.
inline int64_t next_tile(int64_t left) {
  if (left >= 2 * kTileRows || left == kTileRows) return kTileRows;
  return left > kTileRows ? (left + 1) / 2 : left;
}

/// How the left operand lies in memory: element (r, k) at a[r * stride + k], or at a[k * stride +
/// r].
enum class Left { kRows, kColumns };

/// c[R][V] = sum over k < depth of a(r, k) * b[k][V vectors].
template <Left kLeft, int R, int V>
HWY_INLINE void multiply_tile(const float* HWY_RESTRICT a, int64_t stride,
                              const float* HWY_RESTRICT b, int64_t depth, Vec (&c)[R][V]) {
  const F32 d;
  HEADWISE_UNROLL
  for (int r = 0; r < R; ++r) {
    HEADWISE_UNROLL
    for (int v = 0; v < V; ++v) c[r][v] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    Vec right[V];
    HEADWISE_UNROLL
    for (int v = 0; v < V; ++v) right[v] = hn::Load(d, b + v * kLanes);
    HEADWISE_UNROLL
    for (int r = 0; r < R; ++r) {
      const Vec left = hn::Set(d, kLeft == Left::kRows ? a[r * stride] : a[r]);
      HEADWISE_UNROLL
      for (int v = 0; v < V; ++v) c[r][v] = hn::MulAdd(left, right[v], c[r][v]);
    }
    a += kLeft == Left::kRows ? 1 : stride;
    b += V * kLanes;
  }
}

/// Calls call(integral_constant<int, rows>) for 1 ≤ rows ≤ kTileRows.
template <int R = kTileRows, class Call>
HWY_INLINE void with_tile_rows(int64_t rows, const Call& call) {
  if constexpr (R == 1) {
    call(std::integral_constant<int, 1>());
  } else if (rows == R) {
    call(std::integral_constant<int, R>());
  } else {
    with_tile_rows<R - 1>(rows, call);
  }
}

/// Calls call(first column, integral_constant<int, vectors>) for the panels that cover `columns`:
/// all of two vectors but the last, which may be of one.
template <class Call>
HWY_INLINE void for_each_panel(int64_t columns, const Call& call) {
  int64_t c = 0;
  for (; c + kLanes < columns; c += kPanel) call(c, std::integral_constant<int, 2>());
  if (c < columns) call(c, std::integral_constant<int, 1>());
}

/// A strided matrix to be packed: element (r, c) at data[r * row + c * column].
struct Source {
  const float* data;
  ptrdiff_t row, column;
};

/// Row r of `source`, times `factor`, to to[0 … width), with zeros from `columns` on.
HWY_INLINE void copy_row(Source source, int64_t r, int64_t columns, float factor, float* to,
                         int64_t width) {
  const F32 d;
  const float* const from = source.data + r * source.row;
  int64_t c = 0;
  if (source.column == 1) {
    for (; c + kLanes <= columns; c += kLanes) {
      hn::StoreU(hn::Mul(hn::LoadU(d, from + c), hn::Set(d, factor)), d, to + c);
    }
  }
  for (; c < columns; ++c) to[c] = from[c * source.column] * factor;
  for (; c < width; ++c) to[c] = 0;
}

/// Rows of a strided matrix are far apart in memory; this many ahead are prefetched while one is
/// copied.
constexpr int64_t kPrefetchAhead = 8;

HWY_INLINE void prefetch_row(Source source, int64_t r, int64_t columns) {
  constexpr int64_t kLine = 64 / sizeof(float);
  const float* const row = source.data + r * source.row;
  for (int64_t c = 0; c < columns; c += kLine) hwy::Prefetch(row + c * source.column);
}

/// Whether a sum of x * 0 is 0: only then are all x finite.
HWY_INLINE bool is_zero(Vec sum) {
  const F32 d;
  return hn::AllTrue(d, hn::Eq(sum, hn::Zero(d)));
}

/// Packs rows x columns into column panels: panel after panel, each [rows][its vectors], zeros past
/// the columns. Returns whether all elements are finite.
HWY_INLINE bool pack_rows(Source source, int64_t rows, int64_t columns, float* to) {
  const F32 d;
  Vec zeros0 = hn::Zero(d), zeros1 = hn::Zero(d);
  for (int64_t r = 0; r < rows; ++r) {
    if (r + kPrefetchAhead < rows) prefetch_row(source, r + kPrefetchAhead, columns);
    for_each_panel(columns, [&](int64_t c, auto vectors) HEADWISE_LAMBDA {
      constexpr int64_t width = vectors() * kLanes;
      const float* const from = source.data + r * source.row + c * source.column;
      float* const at = to + c * rows + r * width;
      Vec x0 = hn::Zero(d), x1 = hn::Zero(d);
      if (HWY_LIKELY(source.column == 1 && c + width <= columns)) {
        x0 = hn::LoadU(d, from);
        if constexpr (vectors() == 2) x1 = hn::LoadU(d, from + kLanes);
      } else {
        HWY_ALIGN float part[kPanel] = {};
        for (int64_t i = 0; i < std::min(width, columns - c); ++i)
          part[i] = from[i * source.column];
        x0 = hn::Load(d, part);
        x1 = hn::Load(d, part + kLanes);
      }
      hn::Store(x0, d, at);
      zeros0 = hn::MulAdd(x0, hn::Zero(d), zeros0);
      if constexpr (vectors() == 2) {
        hn::Store(x1, d, at + kLanes);
        zeros1 = hn::MulAdd(x1, hn::Zero(d), zeros1);
      }
    });
  }
  return is_zero(hn::Add(zeros0, zeros1));
}

/// Four floats of each of kLanes / 4 rows, row(0), row(4), … as 128-bit blocks of a vector.
template <class Row>
HWY_INLINE Vec load_blocks(const Row& row) {
  const hn::FixedTag<float, 4> d4;
#if HWY_TARGET <= HWY_AVX3
  const hn::FixedTag<float, 8> d8;
  const auto low = hn::Combine(d8, hn::LoadU(d4, row(4)), hn::LoadU(d4, row(0)));
  const auto high = hn::Combine(d8, hn::LoadU(d4, row(12)), hn::LoadU(d4, row(8)));
  return hn::Combine(F32(), high, low);
#elif HWY_TARGET <= HWY_AVX2
  return hn::Combine(F32(), hn::LoadU(d4, row(4)), hn::LoadU(d4, row(0)));
#else
  return hn::LoadU(d4, row(0));
#endif
}

/// to[c * stride + r] = row(r)[c] for r < kLanes and four columns c; zeros for r >= rows if kSome.
template <bool kSome, class Row>
HWY_INLINE void transpose_four(const Row& row, int64_t rows, float* to, int64_t stride) {
  const F32 d;
  const hn::Repartition<uint64_t, F32> d64;
  const Vec a = load_blocks([&](int64_t r) HEADWISE_LAMBDA { return row(r); });
  const Vec b = load_blocks([&](int64_t r) HEADWISE_LAMBDA { return row(r + 1); });
  const Vec e = load_blocks([&](int64_t r) HEADWISE_LAMBDA { return row(r + 2); });
  const Vec f = load_blocks([&](int64_t r) HEADWISE_LAMBDA { return row(r + 3); });
  const auto ab_low = hn::BitCast(d64, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(d64, hn::InterleaveUpper(d, a, b));
  const auto ef_low = hn::BitCast(d64, hn::InterleaveLower(d, e, f));
  const auto ef_high = hn::BitCast(d64, hn::InterleaveUpper(d, e, f));
  const auto store = [&](auto column, float* at) HEADWISE_LAMBDA {
    const Vec x = hn::BitCast(d, column);
    hn::Store(kSome ? hn::IfThenElseZero(hn::FirstN(d, static_cast<size_t>(rows)), x) : x, d, at);
  };
  store(hn::InterleaveLower(d64, ab_low, ef_low), to);
  store(hn::InterleaveUpper(d64, ab_low, ef_low), to + stride);
  store(hn::InterleaveLower(d64, ab_high, ef_high), to + 2 * stride);
  store(hn::InterleaveUpper(d64, ab_high, ef_high), to + 3 * stride);
}

/// to[c * stride + r] = source(r, c) for r < kLanes, c < columns; rows from `rows` on are zeros.
HWY_INLINE void transpose_strip(Source source, int64_t rows, int64_t columns, float* to,
                                int64_t stride) {
  int64_t c = 0;
  if (source.column == 1 && rows == kLanes) {
    for (; c + 4 <= columns; c += 4) {
      transpose_four<false>([&](int64_t r)
                                HEADWISE_LAMBDA { return source.data + r * source.row + c; },
                            rows, to + c * stride, stride);
    }
  } else if (source.column == 1 && rows > 0) {
    const float* at[kLanes];  // the last row stands in for those that are not there
    for (int64_t r = 0; r < kLanes; ++r) at[r] = source.data + std::min(r, rows - 1) * source.row;
    for (; c + 4 <= columns; c += 4) {
      transpose_four<true>([&](int64_t r) HEADWISE_LAMBDA { return at[r] + c; }, rows,
                           to + c * stride, stride);
    }
  }
  for (; c < columns; ++c) {
    for (int64_t r = 0; r < kLanes; ++r) {
      to[c * stride + r] = r < rows ? source.data[r * source.row + c * source.column] : 0;
    }
  }
}

/// Packs the transpose of rows x columns into panels of rows: panel after panel, each [columns][its
/// vectors].
HWY_INLINE void pack_transposed(Source source, int64_t rows, int64_t columns, float* to) {
  for_each_panel(rows, [&](int64_t r, auto vectors) HEADWISE_LAMBDA {
    constexpr int64_t width = vectors() * kLanes;
    for (int64_t strip = 0; strip < width; strip += kLanes) {
      for (int64_t i = r + strip + kLanes; i < std::min(rows, r + strip + 2 * kLanes); ++i) {
        prefetch_row(source, i, columns);
      }
      const Source part{source.data + (r + strip) * source.row, source.row, source.column};
      transpose_strip(part, std::clamp<int64_t>(rows - r - strip, 0, kLanes), columns, to + strip,
                      width);
    }
    to += width * columns;
  });
}

/// A right operand packed by pack_rows. Rows with an infinity or NaN are taken out (0 * NaN would
/// reach results that give the row no weight) and kept aside, for add_strays() to add where they do
/// have weight.
class Operand {
 public:
  Operand(int64_t most_rows, int64_t columns, Scratch& scratch)
      : columns_(columns),
        stride_(round_up(columns, kLanes)),
        panels_(scratch.take<float>(most_rows * stride_)),
        stray_rows_(scratch.take<float>(most_rows * stride_)),
        strays_(scratch.take<int32_t>(most_rows)) {}

  void pack(Source source, int64_t rows) {
    rows_ = rows;
    stray_count_ = 0;
    if (HWY_UNLIKELY(!pack_rows(source, rows, columns_, panels_))) take_out(source);
  }

  /// Row `row` of the panel that begins at column c0.
  template <int V>
  const float* panel(int64_t c0, int64_t row) const {
    return panels_ + c0 * rows_ + row * V * kLanes;
  }
  int64_t columns() const { return columns_; }

  /// to[c] += weight(row) * row[c] for rows kept aside that seen(row).
  template <class Weight, class Seen>
  HWY_INLINE void add_strays(const Weight& weight, const Seen& seen, float* to) const {
    for (int64_t i = 0; i < stray_count_; ++i) {
      if (!seen(strays_[i])) continue;
      for (int64_t c = 0; c < columns_; ++c) {
        to[c] += weight(strays_[i]) * stray_rows_[i * stride_ + c];
      }
    }
  }
  bool has_strays() const { return stray_count_ > 0; }

 private:
  HWY_NOINLINE void take_out(Source source) {
    const F32 d;
    for (int64_t r = 0; r < rows_; ++r) {
      float* const row = stray_rows_ + stray_count_ * stride_;
      copy_row(source, r, columns_, 1.0f, row, stride_);
      Vec zeros = hn::Zero(d);
      for (int64_t c = 0; c < stride_; c += kLanes) {
        zeros = hn::MulAdd(hn::Load(d, row + c), hn::Zero(d), zeros);
      }
      if (is_zero(zeros)) continue;
      strays_[stray_count_++] = static_cast<int32_t>(r);
      for_each_panel(columns_, [&](int64_t c0, auto vectors) HEADWISE_LAMBDA {
        constexpr int64_t width = vectors() * kLanes;
        std::fill_n(panels_ + c0 * rows_ + r * width, width, 0.0f);
      });
    }
  }

  int64_t columns_, stride_;
  int64_t rows_ = 0;
  float *panels_, *stray_rows_;
  int32_t* strays_;
  int64_t stray_count_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise
HWY_AFTER_NAMESPACE();

#endif
