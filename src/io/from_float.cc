// Conversion from float32, with the rounding of IEEE 754.
#include "io/from_float.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "headwise/core/parallel.h"

namespace headwise {
namespace {

constexpr int64_t kWritePanel = 1 << 20;  // values for one thread at a time

struct ToF64 {
  static double bits(float x) { return x; }
};
struct ToF32 {
  static float bits(float x) { return x; }
};
struct ToBF16 {
  static uint16_t bits(float x) {
    const auto u = std::bit_cast<uint32_t>(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(u >> 16 | 0x40u);  // NaN
    return static_cast<uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
};
struct ToF16 {
  static uint16_t bits(float x) {
    const auto u = std::bit_cast<uint32_t>(x);
    const uint32_t sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    uint32_t half = 0;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;  // NaN
    } else if (magnitude >= 0x477ff000u) {
      half = 0x7c00u;  // 65520 and more: infinity
    } else if (magnitude < 0x38800000u) {
      // Subnormal, a multiple of 2^-24: what is left in the last bits of a sum with 0.5.
      half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    } else {
      half = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
    }
    return static_cast<uint16_t>(sign | half);
  }
};

template <class Type>
void write_as(std::span<const float> values, std::byte* out) {
  parallel_panels(std::ssize(values), kWritePanel, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto bits = Type::bits(values[i]);
      std::memcpy(out + i * static_cast<int64_t>(sizeof(bits)), &bits, sizeof(bits));
    }
  });
}

}  // namespace

void from_float(Dtype dtype, std::span<const float> values, std::span<std::byte> out) {
  switch (dtype) {
    case Dtype::kF64:
      return write_as<ToF64>(values, out.data());
    case Dtype::kBF16:
      return write_as<ToBF16>(values, out.data());
    case Dtype::kF16:
      return write_as<ToF16>(values, out.data());
    default:
      return write_as<ToF32>(values, out.data());
  }
}

}  // namespace headwise
