// The matrix product on SIMD vectors: the register tile, blocks of tiles, the epilogue. Compiled
// once per SIMD target.
#if defined(HEADWISE_KERNELS_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_GEMM_INL_H_
#undef HEADWISE_KERNELS_GEMM_INL_H_
#else
#define HEADWISE_KERNELS_GEMM_INL_H_
#endif

#include <algorithm>
#include <array>
#include <utility>

#include "hwy/highway.h"
#include "kernels/activation-inl.h"
#include "kernels/gemm_pack-inl.h"
#include "kernels/gemm_plan.h"
#include "kernels/lambda.h"

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

void pack_panels_float(const View<const float, 2>& b, Range panels, float* to) {
  pack_panels(b, panels, to);
}
void pack_panels_half(const View<const uint16_t, 2>& b, Range panels, uint16_t* to) {
  pack_panels(b, panels, to);
}
void transpose_panels_float(const float* from, int64_t K, Range depth, Range columns, float* to) {
  transpose_panels(from, K, depth, columns, to);
}
void transpose_panels_half(const uint16_t* from, int64_t K, Range depth, Range columns,
                           uint16_t* to) {
  transpose_panels(from, K, depth, columns, to);
}

// How a vector of weights of each WeightType is read; no number changes on the way to float.

struct Float32 {
  using Element = float;
  static HWY_INLINE WideVec load(const float* from) { return hn::LoadU(Wide(), from); }
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

// What tiles are told. Always by reference: copied whole right after being written in parts, these
// would wait for all that was stored before, which takes longer than a short tile.

/// What is contiguous on the left.
enum class Left { kRows, kColumns };

struct TileRows {
  const float* data;
  ptrdiff_t stride;  // from row to row, or from column to column
  int64_t depth;
};

/// Where the panels are: `stride` apart, the rows of each `step` apart.
template <class Element>
struct TilePanels {
  const Element* data;
  ptrdiff_t stride, step;
};

/// Where the sums of a tile go, and what is added to them on the way; nothing for null pointers.
struct TileEnd {
  float* out;
  ptrdiff_t stride;
  bool add;  // to what `out` holds
  const float* bias;
  const float* residual;
  ptrdiff_t residual_stride;
};

/// end.out[R][P * kPanel] = a[R, depth] · P panels, each sum one chain of FMAs in the order of k.
template <class Weights, Left kLeft, int R, int P>
void tile(const TileRows& a, const TilePanels<typename Weights::Element>& panels,
          const TileEnd& end) {
  constexpr int kWidth = P * kVectors;
  const Wide d;
  WideVec sum[R][kWidth];
  HWY_UNROLL(16)
  for (int r = 0; r < R; ++r) {
    HWY_UNROLL(16)
    for (int v = 0; v < kWidth; ++v) sum[r][v] = hn::Zero(d);
  }
  const typename Weights::Element* b_row = panels.data;
  const auto weights = [&](int v) HWY_ATTR {
    return Weights::load(b_row + v / kVectors * panels.stride + v % kVectors * kLanes);
  };
  // Rows apart are found from every fourth one: a pointer for each would not fit the registers.
  // Only hiding how these move keeps the compiler from making the others.
  constexpr bool kApart = kLeft == Left::kRows;
  constexpr int kBases = kApart ? (R + 3) / 4 : 1;
  const float* base[kBases];
  HWY_UNROLL(16)
  for (int i = 0; i < kBases; ++i) base[i] = a.data + 4 * i * a.stride;
  const auto row = [&](int r) HWY_ATTR {
    return hn::Set(d, kApart ? base[r / 4][r % 4 * a.stride] : base[0][r]);
  };
  for (int64_t k = a.depth; k > 0; --k) {
    // A single panel is a single stream of memory, which the hardware does not prefetch far ahead.
    if constexpr (P == 1) __builtin_prefetch(b_row + kRowsAhead * panels.step);
    // The fewer of rows and vectors are kept in registers.
    if constexpr (R < kWidth) {
      WideVec x[R];
      HWY_UNROLL(16)
      for (int r = 0; r < R; ++r) x[r] = row(r);
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) {
        const WideVec b = weights(v);
        HWY_UNROLL(16)
        for (int r = 0; r < R; ++r) sum[r][v] = hn::MulAdd(x[r], b, sum[r][v]);
      }
    } else {
      WideVec b[kWidth];
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) b[v] = weights(v);
      HWY_UNROLL(16)
      for (int r = 0; r < R; ++r) {
        const WideVec x = row(r);
        HWY_UNROLL(16)
        for (int v = 0; v < kWidth; ++v) sum[r][v] = hn::MulAdd(x, b[v], sum[r][v]);
      }
    }
    b_row += panels.step;
    HWY_UNROLL(16)
    for (int i = 0; i < kBases; ++i) {
      base[i] += kApart ? 1 : a.stride;
      asm("" : "+r"(base[i]));
    }
  }
  const auto for_sums = [&](const auto& visit) HEADWISE_LAMBDA {
    HWY_UNROLL(16)
    for (int r = 0; r < R; ++r) {
      HWY_UNROLL(16)
      for (int v = 0; v < kWidth; ++v) visit(sum[r][v], r, v * kLanes);
    }
  };
  if (end.add) {
    for_sums([&](WideVec& x, int r, int c)
                 HEADWISE_LAMBDA { x = hn::Add(hn::LoadU(d, end.out + r * end.stride + c), x); });
  }
  if (end.bias != nullptr) {
    for_sums([&](WideVec& x, int, int c)
                 HEADWISE_LAMBDA { x = hn::Add(x, hn::LoadU(d, end.bias + c)); });
  }
  if (end.residual != nullptr) {
    for_sums([&](WideVec& x, int r, int c) HEADWISE_LAMBDA {
      x = hn::Add(x, hn::LoadU(d, end.residual + r * end.residual_stride + c));
    });
  }
  for_sums([&](WideVec& x, int r, int c)
               HEADWISE_LAMBDA { hn::StoreU(x, d, end.out + r * end.stride + c); });
}

template <class Weights>
struct TileChoice {
  using Tile = void (*)(const TileRows&, const TilePanels<typename Weights::Element>&,
                        const TileEnd&);
  int panels;  // as many as `wide` takes at once
  Tile wide;
  Tile narrow;  // one panel, for what is left over
};

template <class Weights, Left kLeft, int... R>
constexpr auto tile_choices(std::integer_sequence<int, R...>) {
  return std::array{TileChoice<Weights>{tile_panels(R + 1),
                                        tile<Weights, kLeft, R + 1, tile_panels(R + 1)>,
                                        tile<Weights, kLeft, R + 1, 1>}...};
}
template <class Weights, Left kLeft>
inline constexpr auto kTiles =
    tile_choices<Weights, kLeft>(std::make_integer_sequence<int, kTileRows>());

/// The first `columns` of sums[R], which are `stride` apart, to where they go.
inline void end_narrow_tile(const float* sums, ptrdiff_t stride, int64_t rows, int64_t columns,
                            const TileEnd& end) {
  for (int64_t r = 0; r < rows; ++r, sums += stride) {
    float* const to = end.out + r * end.stride;
    for (int64_t c = 0; c < columns; ++c) {
      float x = end.add ? to[c] + sums[c] : sums[c];
      if (end.bias != nullptr) x += end.bias[c];
      if (end.residual != nullptr) x += end.residual[r * end.residual_stride + c];
      to[c] = x;
    }
  }
}

/// Tiles of this depth take long enough for all of their sums to be prefetched.
inline constexpr int64_t kDeep = 128;

/// end.out[R, N] (+)= a[R, depth] · panels, in as few tiles as the registers allow. Moves `panels`
/// and `end` on behind the last tile.
template <class Weights, Left kLeft>
HWY_INLINE void multiply_strip(int64_t rows, const TileRows& a,
                               TilePanels<typename Weights::Element>& panels, int64_t columns,
                               TileEnd& end) {
  const auto& choice = kTiles<Weights, kLeft>[rows - 1];
  for (int64_t c = 0; c < columns;) {
    const bool wide = columns - c > (choice.panels - 1) * kPanel;
    const int64_t width = (wide ? choice.panels : 1) * kPanel;
    const auto multiply = wide ? choice.wide : choice.narrow;
    if (HWY_LIKELY(c + width <= columns)) {
      const int64_t prefetched = a.depth >= kDeep ? width : 1;
      for (int64_t r = 0; r < rows; ++r) prefetch_elements(end.out + r * end.stride, prefetched);
      multiply(a, panels, end);
    } else {
      alignas(64) float sums[kTileRows * kMaxTilePanels * kPanel];
      multiply(a, panels, {sums, width});
      end_narrow_tile(sums, width, rows, columns - c, end);
    }
    panels.data += width / kPanel * panels.stride;
    c += width;
    end.out += width;
    if (end.bias != nullptr) end.bias += width;
    if (end.residual != nullptr) end.residual += width;
  }
}

/// out = activation(out) + residual, if there is one.
template <class Act>
void activate_strip(const View<const float, 2>& residual, const View<float, 2>& out) {
  const Wide d;
  const int64_t columns = out.extent(1);
  for (int64_t r = 0; r < out.extent(0); ++r) {
    float* const to = &out(r, 0);
    const float* const more = residual.data() == nullptr ? nullptr : &residual(r, 0);
    int64_t c = 0;
    for (; c + kLanes <= columns; c += kLanes) {
      const WideVec v = Act::apply(d, hn::LoadU(d, to + c));
      hn::StoreU(more == nullptr ? v : hn::Add(v, hn::LoadU(d, more + c)), d, to + c);
    }
    if (c == columns) continue;
    // The last columns go through a copy, so that nothing beyond the end is touched.
    alignas(64) float part[kLanes] = {};
    std::copy_n(to + c, columns - c, part);
    hn::Store(Act::apply(d, hn::Load(d, part)), d, part);
    for (int64_t i = 0; c + i < columns; ++i) to[c + i] = part[i] + (more ? more[c + i] : 0);
  }
}

/// Rows [begin, end) of a panel brought into L2.
template <class T>
HWY_INLINE void prefetch_rows(const T* panel, ptrdiff_t step, int64_t begin, int64_t end) {
  for (int64_t k = begin; k < end; ++k) __builtin_prefetch(panel + k * step, 0, 2);
}

/// Rows this many numbers apart, 2 KB, or a multiple, meet in one or two sets of L1.
inline constexpr int64_t kMeeting = 512;

/// a[R, depth] where a tile reads it best. Many rows that would fight for the same sets of caches
/// are copied; few rows fit L1 as they are, rows without gaps L2, and rows that are read once need
/// not stay.
inline View<const float, 2> stage_rows(View<const float, 2> a, bool read_once, float* copy) {
  const bool in_place = a.stride(0) == a.extent(1) || a.stride(0) % kMeeting != 0 || read_once ||
                        a.extent(0) <= kFewRows;
  if (a.stride(1) == 1 && in_place) return a;
  const View<float, 2> staged(copy, a.shape(), {kStagedStride, 1});
  copy_elements(a, staged);
  return staged;
}

/// The rows of a block, cut into as few strips of at most kTileRows as there can be.
struct Strips {
  int64_t count, height, higher;  // the first ones are higher by one row

  explicit Strips(int64_t rows)
      : count(ceil_div(rows, kTileRows)), height(rows / count), higher(rows % count) {}
  int64_t highest() const { return height + (higher > 0 ? 1 : 0); }
  Range operator[](int64_t s) const {
    const int64_t begin = s * height + std::min(s, higher);
    return {begin, begin + height + (s < higher ? 1 : 0)};
  }
};

/// A copied strip, and room for the vector that is stored last.
inline constexpr int64_t kStripSize = kMostDepth * kTileRows + kLanes;

/// a[R, depth], contiguous down its columns, as strips of kTileRows numbers for each column.
inline void stage_columns(View<const float, 2> a, const Strips& strips, float* copy) {
  static_assert(kTileRows <= kLanes);
  const auto [rows, depth] = a.shape();
  for (int64_t k = 0; k < depth; ++k) {
    const float* const from = &a(0, k);
    float* to = copy + k * kTileRows;
    for (int64_t s = 0; s < strips.count; ++s, to += kStripSize) {
      const Range strip = strips[s];
      if (HWY_LIKELY(strip.begin + kLanes <= rows)) {
        hn::StoreU(hn::LoadU(Wide(), from + strip.begin), Wide(), to);
      } else {
        std::copy_n(from + strip.begin, strip.size(), to);
      }
    }
  }
}

/// Strips of columns are copied for more groups of panels than this; fewer read them in place.
inline constexpr int64_t kGroupsInPlace = 8;

/// One block of a product, whole. A group of panels stays in L1 while all strips of the block,
/// which are in L2, pass over it and the next group comes nearer, as does what is read next; each
/// strip is finished while it is in L1.
template <class Weights, Left kLeft>
void multiply_block_of(const Product& product, const ProductBlock& what) {
  using Element = typename Weights::Element;
  const Range rows = what.rows, columns = what.columns;
  const Strips strips(rows.size());
  constexpr int64_t kMostStrips = ceil_div(kBlockRows, kTileRows);
  alignas(64) float copy[std::max(kBlockRows * kStagedStride, kMostStrips * kStripSize)];
  const int64_t group = kTiles<Weights, kLeft>[strips.highest() - 1].panels * kPanel;
  const bool strips_copied = kLeft == Left::kColumns && columns.size() > kGroupsInPlace * group;
  const int64_t depth_all = product.a.extent(1);
  const Epilogue& epilogue = product.epilogue;
  const bool activated = epilogue.activation != Activation::none;
  const auto activate =
      with_activation(epilogue.activation, [](auto act) { return &activate_strip<decltype(act)>; });
  Range depth{};
  do {
    depth = depth_part(depth.end, depth_all);
    const bool last = product.last && depth.end == depth_all;
    const int64_t prefetched =
        ceil_div(depth.size(), strips.count);  // of the next panel, by a strip
    View<const float, 2> a = block(product.a, rows, depth);
    if (strips_copied) stage_columns(a, strips, copy);
    if constexpr (kLeft == Left::kRows) a = stage_rows(a, columns.size() <= group, copy);
    const int64_t tiles = strips.count * ceil_div(columns.size(), group);
    Prefetcher left_ahead(next_left(product, what, depth), tiles);
    Prefetcher right_ahead(next_right(product, what, depth), tiles);
    for (int64_t c = columns.begin; c < columns.end; c += group) {
      const Range part{c, std::min(c + group, columns.end)};
      const Element* const first = reinterpret_cast<const Element*>(product.panels) +
                                   c / kPanel * product.panel_stride +
                                   depth.begin * product.panel_step;
      const Element* const next = first + group / kPanel * product.panel_stride;
      for (int64_t s = 0; s < strips.count; ++s) {
        const Range strip = strips[s];
        left_ahead.step();
        right_ahead.step();
        if (strips.count > 1 && part.end < columns.end) {
          prefetch_rows(next, product.panel_step, s * prefetched,
                        std::min((s + 1) * prefetched, depth.size()));
        }
        const Range out_rows{rows.begin + strip.begin, rows.begin + strip.end};
        const float* const residual = last && epilogue.residual.data() != nullptr
                                          ? &epilogue.residual(out_rows.begin, c)
                                          : nullptr;
        const float* const in_place = a.data() + strip.begin * a.stride(0);
        const TileRows tile_rows{strips_copied ? copy + s * kStripSize : in_place,
                                 strips_copied ? kTileRows : a.stride(kLeft == Left::kRows ? 0 : 1),
                                 depth.size()};
        TilePanels<Element> panels{first, product.panel_stride, product.panel_step};
        TileEnd end{.out = &product.out(out_rows.begin, c),
                    .stride = product.out.stride(0),
                    .add = product.add || depth.begin > 0,
                    .bias = last && epilogue.bias.data() != nullptr ? &epilogue.bias(c) : nullptr,
                    .residual = activated ? nullptr : residual,
                    .residual_stride = epilogue.residual.stride(0)};
        multiply_strip<Weights, kLeft>(strip.size(), tile_rows, panels, part.size(), end);
        if (last && activated) {
          activate(block(epilogue.residual, out_rows, part), block(product.out, out_rows, part));
        }
      }
    }
  } while (depth.end < depth_all);
}

void multiply_block(const Product& product, const ProductBlock& what) {
  switch (product.type) {
    case WeightType::float32:
      if (contiguous_down(product.a)) {
        return multiply_block_of<Float32, Left::kColumns>(product, what);
      }
      return multiply_block_of<Float32, Left::kRows>(product, what);
    case WeightType::float16:
      return multiply_block_of<Float16, Left::kRows>(product, what);
    case WeightType::bfloat16:
      return multiply_block_of<Bfloat16, Left::kRows>(product, what);
  }
}

/// out[M, N] = activation(sums + bias) + residual for sums that are contiguous down a column.
void end_swapped(const View<const float, 2>& sums, const View<float, 2>& out,
                 const Epilogue& epilogue) {
  copy_elements(sums, out);
  if (epilogue.bias.data() != nullptr) {
    for (int64_t r = 0; r < out.extent(0); ++r) {
      float* const to = &out(r, 0);
      for (int64_t c = 0; c < out.extent(1); ++c) to[c] += epilogue.bias(c);
    }
  }
  if (epilogue.activation == Activation::none && epilogue.residual.data() == nullptr) return;
  with_activation(epilogue.activation, [](auto act) { return &activate_strip<decltype(act)>; })(
      epilogue.residual, out);
}

/// sums[N] += Σ_m x[M, N] for the columns of four vectors, row by row: columns by themselves would
/// read every line of memory several times.
HWY_INLINE void sum_four_vectors(View<const float, 2> x, float* sums) {
  const Wide d;
  WideVec sum0 = hn::Zero(d), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int64_t r = 0; r < x.extent(0); ++r) {
    const float* const row = &x(r, 0);
    sum0 = hn::Add(sum0, hn::LoadU(d, row));
    sum1 = hn::Add(sum1, hn::LoadU(d, row + kLanes));
    sum2 = hn::Add(sum2, hn::LoadU(d, row + 2 * kLanes));
    sum3 = hn::Add(sum3, hn::LoadU(d, row + 3 * kLanes));
  }
  const auto add = [&](WideVec sum, float* to)
                       HEADWISE_LAMBDA { hn::StoreU(hn::Add(sum, hn::LoadU(d, to)), d, to); };
  add(sum0, sums);
  add(sum1, sums + kLanes);
  add(sum2, sums + 2 * kLanes);
  add(sum3, sums + 3 * kLanes);
}

/// sums[N] += Σ_m x[M, N] for a few columns: 64 rows at a time, so that rounding does not pile up.
void sum_columns(View<const float, 2> x, float* sums) {
  constexpr int64_t kRows = 64;
  for (int64_t begin = 0; begin < x.extent(0); begin += kRows) {
    const Range rows{begin, std::min(begin + kRows, x.extent(0))};
    int64_t c = 0;
    for (; c + 4 * kLanes <= x.extent(1); c += 4 * kLanes) {
      sum_four_vectors(block(x, rows, {c, c + 4 * kLanes}), sums + c);
    }
    for (; c < x.extent(1); ++c) {
      float sum = 0;
      for (int64_t r = rows.begin; r < rows.end; ++r) sum += x(r, c);
      sums[c] += sum;
    }
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
