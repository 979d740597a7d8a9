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

/// words[w] = word w of philox() for the counter and those whose first word is larger by 1, 2, ….
HWY_INLINE void philox_lanes(PhiloxBlock counter, uint64_t key, Words (&words)[4]) {
  const WordTag d;
  Words c0 = hn::Iota(d, counter[0]), c1 = hn::Set(d, counter[1]), c2 = hn::Set(d, counter[2]),
        c3 = hn::Set(d, counter[3]);
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    Words high0, low0, high1, low1;
    multiply_words(c0, kPhiloxMul0, high0, low0);
    multiply_words(c2, kPhiloxMul1, high1, low1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
    c3 = low0;
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  words[0] = c0;
  words[1] = c1;
  words[2] = c2;
  words[3] = c3;
}

}  // namespace headwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
