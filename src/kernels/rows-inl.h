// Passes over one row of floats on SIMD vectors: visits, sums, the largest. Included once per SIMD
// target.
#if defined(HEADWISE_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_ROWS_INL_H_
#undef HEADWISE_KERNELS_ROWS_INL_H_
#else
#define HEADWISE_KERNELS_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "kernels/lambda.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using RowTag = hn::ScalableTag<float>;
using RowVec = hn::Vec<RowTag>;
inline constexpr int64_t kRowLanes = HWY_LANES(float);

/// The first `count` lanes from memory, touching nothing beyond them; `rest` in the others.
HWY_INLINE RowVec load_n(const float* from, int64_t count, float rest = 0) {
  const RowTag d;
  if (HWY_LIKELY(count == kRowLanes)) return hn::LoadU(d, from);
#if HWY_TARGET <= HWY_AVX2
  const auto some = hn::FirstN(d, static_cast<size_t>(count));
  return hn::IfThenElse(some, hn::MaskedLoad(some, d, from), hn::Set(d, rest));
#else
  HWY_ALIGN float part[kRowLanes];
  std::fill_n(part, kRowLanes, rest);
  std::copy_n(from, count, part);
  return hn::Load(d, part);
#endif
}

HWY_INLINE void store_n(RowVec v, float* to, int64_t count) {
  const RowTag d;
  if (HWY_LIKELY(count == kRowLanes)) return hn::StoreU(v, d, to);
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(v, hn::FirstN(d, static_cast<size_t>(count)), d, to);
#else
  HWY_ALIGN float part[kRowLanes];
  hn::Store(v, d, part);
  std::copy_n(part, count, to);
#endif
}

HWY_INLINE RowVec keep_n(RowVec v, int64_t count) {
  if (HWY_LIKELY(count == kRowLanes)) return v;
  return hn::IfThenElseZero(hn::FirstN(RowTag(), static_cast<size_t>(count)), v);
}

/// Calls visit(column, count) for every vector of a row; count < kRowLanes only at its end.
template <class Visit>
HWY_INLINE void for_vectors(int64_t columns, const Visit& visit) {
  int64_t c = 0;
  for (; c + kRowLanes <= columns; c += kRowLanes) visit(c, kRowLanes);
  if (c < columns) visit(c, columns - c);
}

/// Four vectors folded from term(column, count), each a chain, with combine(chain, term).
template <class Term, class Combine>
HWY_INLINE RowVec fold(int64_t begin, int64_t end, RowVec start, const Term& term,
                       const Combine& combine) {
  RowVec a = start, b = start, c = start, d = start;
  int64_t at = begin;
  for (; at + 4 * kRowLanes <= end; at += 4 * kRowLanes) {
    a = combine(a, term(at, kRowLanes));
    b = combine(b, term(at + kRowLanes, kRowLanes));
    c = combine(c, term(at + 2 * kRowLanes, kRowLanes));
    d = combine(d, term(at + 3 * kRowLanes, kRowLanes));
  }
  for (; at < end; at += kRowLanes) a = combine(a, term(at, std::min(kRowLanes, end - at)));
  return combine(combine(a, b), combine(c, d));
}

/// How many terms are at most added up in float, one after another.
inline constexpr int64_t kChain = 32;

/// Σ term(column, count) of a row: in float over short chains, those in double. Lanes from `count`
/// on must be 0.
template <class Term>
HWY_INLINE double sum_row(int64_t columns, const Term& term) {
  constexpr int64_t kPart = kChain * 4 * kRowLanes;
  const RowTag d;
  const auto add = [](RowVec a, RowVec b) HEADWISE_LAMBDA { return hn::Add(a, b); };
  double total = 0;
  for (int64_t begin = 0; begin < columns; begin += kPart) {
    const RowVec sum = fold(begin, std::min(begin + kPart, columns), hn::Zero(d), term, add);
    total += hn::GetLane(hn::SumOfLanes(d, sum));
  }
  return total;
}

/// The largest of a row without NaN; -infinity if it is empty. With NaN, any of the row or NaN.
HWY_INLINE float max_row(const float* row, int64_t columns) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const RowTag d;
  const RowVec most = fold(
      0, columns, hn::Set(d, kLowest),
      [&](int64_t c, int64_t count) HEADWISE_LAMBDA { return load_n(row + c, count, kLowest); },
      [](RowVec a, RowVec b) HEADWISE_LAMBDA { return hn::Max(a, b); });
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
