// The compression function of SHA-256: one for every CPU, and one for those with instructions for
// it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace headwise {

inline constexpr size_t kSha256BlockBytes = 64;

struct Sha256Kernel {
  const char* name;
  void (*compress)(std::array<uint32_t, 8>& state, const std::byte* blocks, size_t count);
};

/// Those that this CPU has instructions for, the fastest first.
std::span<const Sha256Kernel> sha256_kernels();

}  // namespace headwise
