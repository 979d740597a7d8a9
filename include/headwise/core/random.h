// Counter-based random numbers (Philox4x32-10, Salmon et al. 2011). A number is a pure function of
// (seed, stream, index): any thread can compute or recompute any part of a stream in any order.
#pragma once

#include <array>
#include <cstdint>

namespace headwise {

using PhiloxBlock = std::array<uint32_t, 4>;

inline constexpr uint32_t kPhiloxMul0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxMul1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;
inline constexpr int kPhiloxRounds = 10;

/// Four 32-bit words for one 128-bit counter and a 64-bit key.
constexpr PhiloxBlock philox(PhiloxBlock counter, uint64_t key) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t p0 = uint64_t{kPhiloxMul0} * counter[0];
    const uint64_t p1 = uint64_t{kPhiloxMul1} * counter[2];
    counter = {static_cast<uint32_t>(p1 >> 32) ^ counter[1] ^ k0, static_cast<uint32_t>(p1),
               static_cast<uint32_t>(p0 >> 32) ^ counter[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kPhiloxWeyl0;
    k1 += kPhiloxWeyl1;
  }
  return counter;
}

/// Reads stream `stream` of seed `seed` from its beginning.
class Random {
 public:
  explicit Random(uint64_t seed, uint64_t stream = 0) : seed_(seed), stream_(stream) {}

  uint32_t next() {
    const uint64_t block = index_ / 4;
    const int word = static_cast<int>(index_ % 4);
    if (word == 0) {
      words_ = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                       static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                      seed_);
    }
    ++index_;
    return words_[word];
  }

  /// Uniform in [0, 1), a multiple of 2^-24.
  float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }

  /// Uniform in {0, …, n-1}, n ≥ 1, without bias (Lemire 2019).
  uint32_t below(uint32_t n);

  /// Standard normal (Box–Muller).
  float normal();

 private:
  uint64_t seed_;
  uint64_t stream_;
  uint64_t index_ = 0;
  PhiloxBlock words_{};
};

}  // namespace headwise
