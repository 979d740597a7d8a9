// Conversion to float32 in plain loops without branches, which compilers vectorise.
#include "io/to_float.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "headwise/core/parallel.h"
#include "headwise/core/shape.h"

namespace headwise {
namespace {

constexpr int64_t kReadPanel =
    1 << 22;                         // values for one thread: for fewer, waking another is dearer
constexpr int64_t kBlock = 1 << 12;  // values whose checks are joined before one looks at them

template <class T>
T load(const std::byte* bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// For each float type: the bits of a value as stored, and the value.
struct FromF64 {
  using Bits = double;
  static float value(double x) { return static_cast<float>(x); }
};
struct FromF32 {
  using Bits = uint32_t;
  static float value(uint32_t x) { return std::bit_cast<float>(x); }
};
struct FromBF16 {
  using Bits = uint16_t;
  static float value(uint16_t x) { return std::bit_cast<float>(uint32_t{x} << 16); }
};
struct FromF16 {
  using Bits = uint16_t;
  static uint32_t mask(bool condition) { return condition ? ~0u : 0u; }
  static float value(uint16_t x) {
    const uint32_t magnitude = x & 0x7fffu;
    // A subnormal is m 2^-24, the last bits of 0.5 + m 2^-24; any other moves to its new place.
    const uint32_t subnormal =
        std::bit_cast<uint32_t>(std::bit_cast<float>(0x3f000000u | (magnitude & 0x3ffu)) - 0.5f);
    const uint32_t exponent_shift = 112u + (112u & mask(magnitude >= 0x7c00u));
    const uint32_t normal = (magnitude << 13) + (exponent_shift << 23);
    const uint32_t sign = uint32_t{x & 0x8000u} << 16;
    const uint32_t small = mask(magnitude < 0x400u);
    return std::bit_cast<float>(sign | (subnormal & small) | (normal & ~small));
  }
};

bool is_finite(float x) { return (std::bit_cast<uint32_t>(x) & 0x7f800000u) != 0x7f800000u; }

template <class Type>
void read_as(const std::byte* bytes, float* out, int64_t size) {
  for (int64_t i = 0; i < size; ++i) out[i] = Type::value(load<typename Type::Bits>(bytes, i));
}

template <class Type>
int64_t search(const std::byte* bytes, int64_t begin, int64_t end) {
  for (int64_t block = begin; block < end; block += kBlock) {
    const int64_t block_end = std::min(block + kBlock, end);
    uint32_t found = 0;
    for (int64_t i = block; i < block_end; ++i) {
      found |= is_finite(Type::value(load<typename Type::Bits>(bytes, i))) ? 0 : 1;
    }
    if (found == 0) continue;
    while (is_finite(Type::value(load<typename Type::Bits>(bytes, block)))) ++block;
    return block;
  }
  return end;
}

/// Calls work(type) with the type that `dtype` stands for.
template <class Work>
void for_type(Dtype dtype, const Work& work) {
  if (dtype == Dtype::kF64) work(FromF64());
  if (dtype == Dtype::kF32) work(FromF32());
  if (dtype == Dtype::kF16) work(FromF16());
  if (dtype == Dtype::kBF16) work(FromBF16());
}

}  // namespace

void to_float(Dtype dtype, std::span<const std::byte> bytes, std::span<float> out) {
  for_type(dtype, [&]<class Type>(Type) {
    parallel_panels(static_cast<int64_t>(out.size()), kReadPanel, [&](int64_t begin, int64_t end) {
      read_as<Type>(bytes.data() + begin * sizeof(typename Type::Bits), out.data() + begin,
                    end - begin);
    });
  });
}

int64_t first_not_finite(Dtype dtype, std::span<const std::byte> bytes) {
  std::atomic<int64_t> first = INT64_MAX;
  for_type(dtype, [&]<class Type>(Type) {
    const int64_t size = static_cast<int64_t>(bytes.size() / sizeof(typename Type::Bits));
    parallel_panels(size, kReadPanel, [&](int64_t begin, int64_t end) {
      const int64_t found = search<Type>(bytes.data(), begin, end);
      if (found == end) return;
      for (int64_t known = first; found < known && !first.compare_exchange_weak(known, found);) {
      }
    });
  });
  return first == INT64_MAX ? -1 : first.load();
}

}  // namespace headwise
