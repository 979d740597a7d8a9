// SHA-256 (FIPS 180-4): the identity of weights and corpora.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/sha256_blocks.h"

namespace headwise {

class Sha256 {
 public:
  explicit Sha256(const Sha256Kernel& kernel = sha256_kernels().front()) : kernel_(kernel) {}

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  /// 64 hexadecimal digits; nothing may be added afterwards.
  std::string finish();

 private:
  Sha256Kernel kernel_;
  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, kSha256BlockBytes> rest_{};
  uint64_t size_ = 0;  // bytes so far
};

}  // namespace headwise
