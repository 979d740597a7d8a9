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
#include <utility>

#include "hwy/cache_control.h"
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

/// to[R, C] = from[R, C], fast when either stride of `from` is 1.
template <class T>
void copy_elements(View<const T, 2> from, View<T, 2> to) {
  const auto [rows, columns] = from.shape();
  if (rows == 0 || columns == 0) return;
  if (from.stride(1) == 1) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(&from(r, 0), columns, &to(r, 0));
    return;
  }
  const bool by_fours = from.stride(0) == 1;
  const int64_t whole_rows = by_fours ? rows / 4 * 4 : 0;
  const int64_t whole_columns = by_fours ? columns / 4 * 4 : 0;
  for (int64_t r = 0; r < whole_rows; r += 4) {
    for (int64_t c = 0; c < whole_columns; c += 4) {
      transpose_4x4(&from(r, c), from.stride(1), &to(r, c), to.stride(0));
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) to(r, c) = from(r, c);
  }
}

void copy_matrix(View<const float, 2> from, View<float, 2> to) { copy_elements(from, to); }

/// Columns [kPanel * panel, …) of b[K, N] as K rows of kPanel elements, zeros beyond N.
template <class T>
void pack_panel(View<const T, 2> b, int64_t panel, T* to) {
  const int64_t begin = panel * kPanel;
  const int64_t columns = std::min<int64_t>(kPanel, b.extent(1) - begin);
  if (columns < kPanel) std::fill_n(to, b.extent(0) * kPanel, T{0});
  copy_elements(block(b, {0, b.extent(0)}, {begin, begin + columns}),
                View<T, 2>(to, {b.extent(0), columns}, {kPanel, 1}));
}

void pack_panel_float(View<const float, 2> b, int64_t panel, float* to) {
  pack_panel(b, panel, to);
}
void pack_panel_half(View<const uint16_t, 2> b, int64_t panel, uint16_t* to) {
  pack_panel(b, panel, to);
}

// How a vector of weights of each WeightType is read; no number changes on the way to float.

struct Float32 {
  using Element = float;
  static HWY_INLINE WideVec load(const float* from) { return hn::Load(Wide(), from); }
};

using Half = hn::Rebind<uint16_t, Wide>;
using Bits = hn::RebindToUnsigned<Wide>;

struct Bfloat16 {
  using Element = uint16_t;
  static HWY_INLINE WideVec load(const uint16_t* from) {
    const auto bits = hn::PromoteTo(Bits(), hn::Load(Half(), from));
    return hn::BitCast(Wide(), hn::ShiftLeft<16>(bits));
  }
};

struct Float16 {
  using Element = uint16_t;
  static HWY_INLINE WideVec load(const uint16_t* from) {
    const Wide d;
#if HWY_TARGET <= HWY_AVX2
    const hn::Rebind<hwy::float16_t, Wide> d16;
    return hn::PromoteTo(d, hn::BitCast(d16, hn::Load(Half(), from)));
#else
    // Exponent and fraction moved to where float has them make a number too small by 2^112, also
    // below the smallest normal one; the largest exponent is that of infinity and NaN.
    const Bits u;
    const auto bits = hn::PromoteTo(u, hn::Load(Half(), from));
    const auto magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(u, 0x7fff)));
    const auto number = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
    const auto limit = hn::Set(u, 0x7c00 << 13);
    const auto special = hn::VecFromMask(u, hn::Eq(hn::And(magnitude, limit), limit));
    const auto exponent = hn::And(special, hn::Set(u, 0x7f800000));
    const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(u, 0x8000)));
    return hn::BitCast(d, hn::Or(hn::Or(hn::BitCast(u, number), exponent), sign));
#endif
  }
};

inline constexpr int64_t kRowsAhead = 64;

/// sums[R][P * kPanel] = a[R][depth] · P panels, each sum one chain of FMAs in the order of k.
template <class Weights, int R, int P>
void tile(const float* HWY_RESTRICT a, ptrdiff_t a_stride,
          const typename Weights::Element* HWY_RESTRICT panels, ptrdiff_t panel_stride,
          int64_t depth, float* HWY_RESTRICT sums) {
  constexpr int kWidth = P * kVectors;
  const Wide d;
  WideVec sum[R][kWidth];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWidth; ++v) sum[r][v] = hn::Zero(d);
  }
  const auto weights = [&](int64_t k, int v) HWY_ATTR {
    return Weights::load(panels + v / kVectors * panel_stride + k * kPanel + v % kVectors * kLanes);
  };
  for (int64_t k = 0; k < depth; ++k) {
    // A single panel is a single stream of memory, which the hardware does not fetch far ahead.
    if constexpr (P == 1) __builtin_prefetch(panels + (k + kRowsAhead) * kPanel);
    // The fewer of rows and vectors are kept in registers.
    if constexpr (R < kWidth) {
      WideVec x[R];
      HWY_UNROLL(16)
      for (int r = 0; r < R; ++r) x[r] = hn::Set(d, a[r * a_stride + k]);
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) {
        const WideVec b = weights(k, v);
        HWY_UNROLL(16)
        for (int r = 0; r < R; ++r) sum[r][v] = hn::MulAdd(x[r], b, sum[r][v]);
      }
    } else {
      WideVec b[kWidth];
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) b[v] = weights(k, v);
      HWY_UNROLL(16)
      for (int r = 0; r < R; ++r) {
        const WideVec x = hn::Set(d, a[r * a_stride + k]);
        HWY_UNROLL(16)
        for (int v = 0; v < kWidth; ++v) sum[r][v] = hn::MulAdd(x, b[v], sum[r][v]);
      }
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWidth; ++v) hn::Store(sum[r][v], d, sums + (r * kWidth + v) * kLanes);
  }
}

template <class Weights>
struct TileChoice {
  using Tile = void (*)(const float*, ptrdiff_t, const typename Weights::Element*, ptrdiff_t,
                        int64_t, float*);
  int panels;  // as many as `wide` takes at once
  Tile wide;
  Tile narrow;  // one panel, for what is left over
};

template <class Weights, int... R>
constexpr auto tile_choices(std::integer_sequence<int, R...>) {
  return std::array{TileChoice<Weights>{
      tile_panels(R + 1), tile<Weights, R + 1, tile_panels(R + 1)>, tile<Weights, R + 1, 1>}...};
}
template <class Weights>
inline constexpr auto kTiles = tile_choices<Weights>(std::make_integer_sequence<int, kTileRows>());

/// out[R, N] = sums, or out += sums; rows of sums are `stride` apart.
inline void store_tile(const float* sums, int64_t stride, bool add, View<float, 2> out) {
  const Wide d;
  for (int64_t r = 0; r < out.extent(0); ++r, sums += stride) {
    float* to = &out(r, 0);
    int64_t c = 0;
    for (; c + kLanes <= out.extent(1); c += kLanes) {
      const WideVec sum = hn::Load(d, sums + c);
      hn::StoreU(add ? hn::Add(hn::LoadU(d, to + c), sum) : sum, d, to + c);
    }
    for (; c < out.extent(1); ++c) to[c] = add ? to[c] + sums[c] : sums[c];
  }
}

/// out[R, N] (+)= a[R, depth] · panels, in as few tiles as the registers allow.
template <class Weights>
void multiply_strip(View<const float, 2> a, const typename Weights::Element* panels,
                    ptrdiff_t panel_stride, bool add, View<float, 2> out) {
  alignas(64) float sums[kTileRows * kMaxTilePanels * kPanel];
  const int64_t rows = out.extent(0);
  const auto& choice = kTiles<Weights>[rows - 1];
  for (int64_t c = 0; c < out.extent(1);) {
    const bool wide = out.extent(1) - c > (choice.panels - 1) * kPanel;
    const int64_t width = (wide ? choice.panels : 1) * kPanel;
    const auto multiply = wide ? choice.wide : choice.narrow;
    for (int64_t r = 0; r < rows; ++r) hwy::Prefetch(&out(r, c));
    multiply(a.data(), a.stride(0), panels, panel_stride, a.extent(1), sums);
    store_tile(sums, width, add, block(out, {0, rows}, {c, std::min(c + width, out.extent(1))}));
    panels += width / kPanel * panel_stride;
    c += width;
  }
}

/// One vector through the epilogue; null pointers are steps that are not asked for.
template <class Act>
HWY_INLINE void finish_vector(const float* bias, const float* residual, float* out) {
  const Wide d;
  WideVec v = hn::LoadU(d, out);
  if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias));
  v = Act::apply(d, v);
  if (residual != nullptr) v = hn::Add(v, hn::LoadU(d, residual));
  hn::StoreU(v, d, out);
}

template <class Act>
void finish_row(const float* bias, const float* residual, float* out, int64_t columns) {
  const auto at = [](const float* p, int64_t c) { return p == nullptr ? nullptr : p + c; };
  int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    finish_vector<Act>(at(bias, c), at(residual, c), out + c);
  }
  const int64_t rest = columns - c;
  if (rest == 0) return;
  // The last columns go through copies, so that nothing beyond the end is touched.
  float bias_part[kLanes] = {};
  float residual_part[kLanes] = {};
  float out_part[kLanes] = {};
  if (bias != nullptr) std::copy_n(bias + c, rest, bias_part);
  if (residual != nullptr) std::copy_n(residual + c, rest, residual_part);
  std::copy_n(out + c, rest, out_part);
  finish_vector<Act>(bias ? bias_part : nullptr, residual ? residual_part : nullptr, out_part);
  std::copy_n(out_part, rest, out + c);
}

inline void finish_block(const Epilogue& epilogue, Range rows, Range columns, View<float, 2> out) {
  const float* bias = epilogue.bias.data();
  const bool residual = epilogue.residual.data() != nullptr;
  if (bias == nullptr && !residual && epilogue.activation == Activation::none) return;
  const auto finish =
      with_activation(epilogue.activation, [](auto act) { return &finish_row<decltype(act)>; });
  for (int64_t r = rows.begin; r < rows.end; ++r) {
    finish(bias == nullptr ? nullptr : bias + columns.begin,
           residual ? &epilogue.residual(r, columns.begin) : nullptr, &out(r, columns.begin),
           columns.size());
  }
}

/// Part i of `parts` of what the next group of panels begins with, brought into L2.
template <class T>
HWY_INLINE void prefetch_part(const T* panels, int64_t depth, int64_t i, int64_t parts) {
  const Range part = even_part({0, depth}, i, parts);
  for (int64_t k = part.begin; k < part.end; ++k) __builtin_prefetch(panels + k * kPanel, 0, 2);
}

/// a[R, depth] where a tile reads it best. Rows that lie a power of two apart would fight for the
/// same sets of L2, so many rows are copied; few rows fit L1 as they are.
inline View<const float, 2> stage_rows(View<const float, 2> a, float* copy) {
  if (a.extent(0) <= kFewRows) return a;
  const View<float, 2> staged(copy, a.shape(), {kStagedStride, 1});
  copy_matrix(a, staged);
  return staged;
}

/// One block of a product, whole. A group of panels stays in L1 while all strips of the block,
/// which are in L2, pass over it and the next group comes nearer; the epilogue finds the block in
/// L2.
template <class Weights>
void multiply_block_of(const Product& product, Range rows, Range columns) {
  using Element = typename Weights::Element;
  alignas(64) float copy[kBlockRows * kStagedStride];
  const int64_t strips = ceil_div(rows.size(), kTileRows);
  const int64_t group = kTiles<Weights>[even_part(rows, 0, strips).size() - 1].panels * kPanel;
  const int64_t depth_all = product.a.extent(1);
  const auto out = product.out.rows(rows.begin, rows.end);
  for (int64_t k = 0; k == 0 || k < depth_all; k += kBlockDepth) {
    const Range depth{k, std::min(k + kBlockDepth, depth_all)};
    const auto a = stage_rows(block(product.a, rows, depth), copy);
    for (int64_t c = columns.begin; c < columns.end; c += group) {
      const Range part{c, std::min(c + group, columns.end)};
      const Element* const panels = reinterpret_cast<const Element*>(product.panels) +
                                    c / kPanel * product.panel_stride + k * kPanel;
      const Element* const next = panels + group / kPanel * product.panel_stride;
      for (int64_t s = 0; s < strips; ++s) {
        const Range strip = even_part({0, rows.size()}, s, strips);
        if (strips > 1 && part.end < columns.end) prefetch_part(next, depth.size(), s, strips);
        multiply_strip<Weights>(a.rows(strip.begin, strip.end), panels, product.panel_stride,
                                product.add || k > 0, block(out, strip, part));
      }
    }
  }
  if (product.last) finish_block(product.epilogue, rows, columns, product.out);
}

void multiply_block(const Product& product, Range rows, Range columns) {
  switch (product.type) {
    case WeightType::float32:
      return multiply_block_of<Float32>(product, rows, columns);
    case WeightType::float16:
      return multiply_block_of<Float16>(product, rows, columns);
    case WeightType::bfloat16:
      return multiply_block_of<Bfloat16>(product, rows, columns);
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
