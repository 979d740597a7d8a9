// Philox on SIMD vectors: the words of neighbouring counters side by side. Compiled once per SIMD
// target.
#if defined(HEADWISE_KERNELS_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_KERNELS_PHILOX_INL_H_
#undef HEADWISE_KERNELS_PHILOX_INL_H_
#else
#define HEADWISE_KERNELS_PHILOX_INL_H_
#endif

#include "headwise/core/random.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using WordTag = hn::ScalableTag<uint32_t>;
using Words = hn::Vec<WordTag>;

/// High and low halves of the products with a constant.
HWY_INLINE void multiply_words(Words a, uint32_t by, Words& high, Words& low) {
  const WordTag d;
  const hn::Repartition<uint64_t, WordTag> d64;
  const Words b = hn::Set(d, by);
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))), b);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}

/// words[w][n] = word w of philox() for N vectors of counters, of which the first word counts up by
/// 1. Several vectors at once hide that each of the rounds waits for the one before.
template <int N>
HWY_INLINE void philox_lanes(PhiloxBlock counter, uint64_t key, Words (&words)[4][N]) {
  const WordTag d;
  auto& [c0, c1, c2, c3] = words;
  HWY_UNROLL(4)
  for (int n = 0; n < N; ++n) {
    c0[n] = hn::Iota(d, counter[0] + static_cast<uint32_t>(n * HWY_LANES(uint32_t)));
    c1[n] = hn::Set(d, counter[1]);
    c2[n] = hn::Set(d, counter[2]);
    c3[n] = hn::Set(d, counter[3]);
  }
  Words k0 = hn::Set(d, static_cast<uint32_t>(key));
  Words k1 = hn::Set(d, static_cast<uint32_t>(key >> 32));
  for (int round = 0; round < kPhiloxRounds; ++round) {
    HWY_UNROLL(4)
    for (int n = 0; n < N; ++n) {
      Words high0, low0, high1, low1;
      multiply_words(c0[n], kPhiloxMul0, high0, low0);
      multiply_words(c2[n], kPhiloxMul1, high1, low1);
      c0[n] = hn::Xor(hn::Xor(high1, c1[n]), k0);
      c1[n] = low1;
      c2[n] = hn::Xor(hn::Xor(high0, c3[n]), k1);
      c3[n] = low0;
    }
    k0 = hn::Add(k0, hn::Set(d, kPhiloxWeyl0));
    k1 = hn::Add(k1, hn::Set(d, kPhiloxWeyl1));
  }
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
