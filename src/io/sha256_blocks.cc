// FIPS 180-4, section 6.2, and the same with the SHA instructions of x86.
#include "io/sha256_blocks.h"

#include <algorithm>
#include <bit>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace headwise {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr std::array<uint32_t, 64> kRound = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t big_endian(const std::byte* bytes) {
  const auto at = [&](int i) { return std::to_integer<uint32_t>(bytes[i]); };
  return at(0) << 24 | at(1) << 16 | at(2) << 8 | at(3);
}

void compress_portably(std::array<uint32_t, 8>& state, const std::byte* blocks, size_t count) {
  for (; count > 0; --count, blocks += kSha256BlockBytes) {
    std::array<uint32_t, 64> w;
    for (int t = 0; t < 16; ++t) w[t] = big_endian(blocks + 4 * t);
    for (int t = 16; t < 64; ++t) {
      const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
      const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
      w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int t = 0; t < 64; ++t) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t first = h + s1 + ((e & f) ^ (~e & g)) + kRound[t] + w[t];
      const uint32_t second = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
    }
    const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state[i] += added[i];
  }
}

#if defined(__x86_64__)

bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_SSE4_1) == 0 || (c & bit_SSSE3) == 0) {
    return false;
  }
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
}

__attribute__((target("sse4.1"))) inline __m128i load(const void* at) {
  return _mm_loadu_si128(static_cast<const __m128i*>(at));
}

/// The instructions keep the state as a, b, e, f and c, d, g, h, from the highest word down.
__attribute__((target("sha,sse4.1,ssse3"))) void compress_by_instructions(
    std::array<uint32_t, 8>& state, const std::byte* blocks, size_t count) {
  const __m128i swap_bytes = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i badc = _mm_shuffle_epi32(load(&state[0]), 0xB1);  // from high to low: c d a b
  const __m128i hgfe = _mm_shuffle_epi32(load(&state[4]), 0x1B);  // e f g h
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8);
  __m128i cdgh = _mm_blend_epi16(hgfe, badc, 0xF0);
  for (; count > 0; --count, blocks += kSha256BlockBytes) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];  // the last 16 words of the schedule
    for (int i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      if (i < 4) {
        now = _mm_shuffle_epi8(load(blocks + 16 * i), swap_bytes);
      } else {
        const __m128i &three_ago = w[(i + 1) % 4], &two_ago = w[(i + 2) % 4],
                      &one_ago = w[(i + 3) % 4];
        now = _mm_sha256msg1_epu32(now, three_ago);
        now = _mm_add_epi32(now, _mm_alignr_epi8(one_ago, two_ago, 4));
        now = _mm_sha256msg2_epu32(now, one_ago);
      }
      __m128i added = _mm_add_epi32(now, load(&kRound[4 * i]));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, added);
      added = _mm_shuffle_epi32(added, 0x0E);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, added);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[0]), _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(&state[4]), _mm_alignr_epi8(dchg, feba, 8));
}

#endif

constexpr Sha256Kernel kKernels[] = {
#if defined(__x86_64__)
    {"SHA instructions", compress_by_instructions},
#endif
    {"portable", compress_portably},
};

}  // namespace

std::span<const Sha256Kernel> sha256_kernels() {
#if defined(__x86_64__)
  static const bool has_all = has_sha_instructions();
  if (!has_all) return std::span(kKernels).subspan(1);
#endif
  return kKernels;
}

}  // namespace headwise
