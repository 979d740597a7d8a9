// The matrix product on SIMD vectors: packing, the register tile, the epilogue. Compiled once per
// SIMD target.
#if defined(HEADWISE_KERNELS_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_GEMM_INL_H_
#undef HEADWISE_KERNELS_GEMM_INL_H_
#else
#define HEADWISE_KERNELS_GEMM_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "hwy/highway.h"
#include "kernels/activation-inl.h"
#include "kernels/gemm_plan.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::CappedTag<float, kPanel>;
using WideVec = hn::Vec<Wide>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(Wide()));
inline constexpr int kVectors = kPanel / kLanes;  // per row of a panel

// A tile keeps rows × panels × kVectors sums in registers: as many as leave room for one row of the
// panel and one broadcast, and at least 8, which hide the latency of two FMA units.
inline constexpr int kSums = HWY_TARGET <= HWY_AVX3 ? 24 : 12;
inline constexpr int kTileRows = HWY_TARGET <= HWY_AVX3 ? 12 : kSums / kVectors;
constexpr int tile_panels(int rows) {
  return std::clamp(kSums / (rows * kVectors), 1, kMaxTilePanels);
}

HWY_INLINE void transpose_4x4(const float* from, ptrdiff_t from_stride, float* to,
                              ptrdiff_t to_stride) {
  const hn::FixedTag<float, 4> d;
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

/// to[r * to_stride + c] = from(r, c), fast when either stride of `from` is 1.
inline void copy_block(View<const float, 2> from, float* to, ptrdiff_t to_stride) {
  const int64_t rows = from.extent(0);
  const int64_t columns = from.extent(1);
  if (columns == 0) return;
  if (from.stride(1) == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * to_stride, &from(r, 0), columns * sizeof(float));
    }
    return;
  }
  const bool by_fours = from.stride(0) == 1;
  const int64_t whole_rows = by_fours ? rows / 4 * 4 : 0;
  const int64_t whole_columns = by_fours ? columns / 4 * 4 : 0;
  for (int64_t r = 0; r < whole_rows; r += 4) {
    for (int64_t c = 0; c < whole_columns; c += 4) {
      transpose_4x4(&from(r, c), from.stride(1), to + r * to_stride + c, to_stride);
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) {
      to[r * to_stride + c] = from(r, c);
    }
  }
}

/// Columns [kPanel * panel, …) of b[K, N] as K rows of kPanel floats, zeros beyond N.
void pack_panel(View<const float, 2> b, int64_t panel, float* to) {
  const int64_t begin = panel * kPanel;
  const int64_t columns = std::min<int64_t>(kPanel, b.extent(1) - begin);
  if (columns < kPanel) std::fill_n(to, b.extent(0) * kPanel, 0.0f);
  copy_block({b.data() + begin * b.stride(1), {b.extent(0), columns}, b.strides()}, to, kPanel);
}

/// sums[R][P * kPanel] = a[R][depth] · P panels, each sum one chain of FMAs in the order of k.
template <int R, int P>
void tile(const float* HWY_RESTRICT a, const float* HWY_RESTRICT panels, ptrdiff_t panel_stride,
          int64_t depth, float* HWY_RESTRICT sums) {
  constexpr int kWidth = P * kVectors;
  const Wide d;
  WideVec sum[R][kWidth];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWidth; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t k = 0; k < depth; ++k) {
    WideVec b[kWidth];
    HWY_UNROLL(16)
    for (int v = 0; v < kWidth; ++v) {
      b[v] = hn::Load(d, panels + v / kVectors * panel_stride + k * kPanel + v % kVectors * kLanes);
    }
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      const WideVec x = hn::Set(d, a[r * kBlockStride + k]);
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) sum[r][v] = hn::MulAdd(x, b[v], sum[r][v]);
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWidth; ++v) hn::Store(sum[r][v], d, sums + (r * kWidth + v) * kLanes);
  }
}

using TileFunction = void (*)(const float*, const float*, ptrdiff_t, int64_t, float*);
struct TileChoice {
  int panels;  // as many as `wide` takes at once
  TileFunction wide;
  TileFunction narrow;  // one panel, for what is left over
};

template <int... R>
constexpr std::array<TileChoice, kTileRows> tile_choices(std::integer_sequence<int, R...>) {
  return {TileChoice{tile_panels(R + 1), tile<R + 1, tile_panels(R + 1)>, tile<R + 1, 1>}...};
}
inline constexpr auto kTiles = tile_choices(std::make_integer_sequence<int, kTileRows>());

/// One vector on its way out; null pointers are steps that are not asked for.
template <class Act>
HWY_INLINE void finish_vector(const float* sum, const float* bias, const float* residual, bool add,
                              float* out) {
  const Wide d;
  WideVec v = hn::Load(d, sum);
  if (add) v = hn::Add(v, hn::LoadU(d, out));
  if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias));
  v = Act::apply(d, v);
  if (residual != nullptr) v = hn::Add(v, hn::LoadU(d, residual));
  hn::StoreU(v, d, out);
}

template <class Act>
void finish_row(const float* sums, const float* bias, const float* residual, bool add, float* out,
                int64_t columns) {
  const auto at = [](const float* p, int64_t c) { return p == nullptr ? nullptr : p + c; };
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    finish_vector<Act>(sums + c, at(bias, c), at(residual, c), add, out + c);
  }
  if (c == columns) return;
  // The last columns go through copies, so that nothing beyond the end is touched.
  float part[3][kLanes] = {};
  const auto copied = [&](const float* p, int i) -> const float* {
    return p == nullptr ? nullptr : std::copy(p + c, p + columns, part[i]) - (columns - c);
  };
  if (add) copied(out, 2);
  finish_vector<Act>(sums + c, copied(bias, 0), copied(residual, 1), add, part[2]);
  std::copy_n(part[2], columns - c, out + c);
}

using FinishRow = void (*)(const float*, const float*, const float*, bool, float*, int64_t);

inline FinishRow finish_row_for(Activation activation) {
  switch (activation) {
    case Activation::none:
      return finish_row<Identity>;
    case Activation::relu:
      return finish_row<Relu>;
    case Activation::gelu:
      return finish_row<Gelu>;
    case Activation::gelu_tanh:
      return finish_row<GeluTanh>;
    case Activation::silu:
      return finish_row<Silu>;
    case Activation::tanh:
      return finish_row<Tanh>;
  }
  return finish_row<Identity>;
}

/// Where sums go: straight into the output until the last k, through the epilogue then.
struct Finish {
  const Product& product;
  bool add;
  bool last;
  FinishRow row;

  void operator()(const float* sums, Range rows, int64_t stride, int64_t column) const {
    const Epilogue& epilogue = product.epilogue;
    const float* bias = last && epilogue.bias.data() ? epilogue.bias.data() + column : nullptr;
    const bool residual = last && epilogue.residual.data();
    const int64_t columns = std::min(stride, product.out.extent(1) - column);
    for (int64_t r = rows.begin; r < rows.end; ++r, sums += stride) {
      row(sums, bias, residual ? &epilogue.residual(r, column) : nullptr, add,
          &product.out(r, column), columns);
    }
  }
};

/// All tiles of one row strip of a block.
inline void multiply_strip(const Product& product, const float* a, const float* panels,
                           int64_t depth, Range rows, Range which, const Finish& finish) {
  alignas(64) float sums[kTileRows * kMaxTilePanels * kPanel];
  const TileChoice& choice = kTiles[rows.size() - 1];
  for (int64_t p = which.begin; p < which.end;) {
    const bool wide = p + choice.panels <= which.end;
    const int64_t count = wide ? choice.panels : 1;
    const float* b = panels + p * product.panel_stride;
    (wide ? choice.wide : choice.narrow)(a, b, product.panel_stride, depth, sums);
    finish(sums, rows, count * kPanel, p * kPanel);
    p += count;
  }
}

/// Rows × panels of a product, whole: at most kBlockRows rows.
void multiply_block(const Product& product, Range rows, Range panels) {
  alignas(64) float a[kBlockRows * kBlockStride];
  const int64_t depth_all = product.a.extent(1);
  for (int64_t k = 0; k == 0 || k < depth_all; k += kBlockDepth) {
    const int64_t depth = std::min<int64_t>(kBlockDepth, depth_all - k);
    const bool last = product.last && k + depth == depth_all;
    const Activation activation = last ? product.epilogue.activation : Activation::none;
    const Finish finish{product, product.add || k > 0, last, finish_row_for(activation)};
    const auto part = product.a.rows(rows.begin, rows.end);
    copy_block({part.data() + k * part.stride(1), {rows.size(), depth}, part.strides()}, a,
               kBlockStride);
    const float* b = product.panels + k * kPanel;
    // A group of panels stays in L1 while all strips of the block, which is in L2, pass over it.
    const int64_t strips = ceil_div(rows.size(), kTileRows);
    const int64_t group_size = kTiles[even_part(rows, 0, strips).size() - 1].panels;
    for (int64_t p = panels.begin; p < panels.end; p += group_size) {
      const Range group{p, std::min(p + group_size, panels.end)};
      for (int64_t s = 0; s < strips; ++s) {
        const Range strip = even_part(rows, s, strips);
        multiply_strip(product, a + (strip.begin - rows.begin) * kBlockStride, b, depth, strip,
                       group, finish);
      }
    }
  }
}

/// sums[N] += Σ_m x[M, N] for a few columns: 64 rows at a time, so that rounding does not pile up.
void sum_columns(View<const float, 2> x, float* sums) {
  constexpr int64_t kRows = 64;
  for (int64_t begin = 0; begin < x.extent(0); begin += kRows) {
    const auto part = x.rows(begin, std::min(begin + kRows, x.extent(0)));
    const Wide d;
    int64_t c = 0;
    for (; c + kLanes <= x.extent(1); c += kLanes) {
      WideVec sum = hn::Zero(d);
      for (int64_t r = 0; r < part.extent(0); ++r) sum = hn::Add(sum, hn::LoadU(d, &part(r, c)));
      hn::StoreU(hn::Add(sum, hn::LoadU(d, sums + c)), d, sums + c);
    }
    for (; c < x.extent(1); ++c) {
      float sum = 0;
      for (int64_t r = 0; r < part.extent(0); ++r) sum += part(r, c);
      sums[c] += sum;
    }
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
